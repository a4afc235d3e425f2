"""The partitions of an internal topic that this broker leads, each with its machine."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.errors import LogDirFailed

from ..core.partition import Partition
from ..core.waiters import Waiters
from ..tasks import TaskSupervisor
from .codec import RecordCodec, RecordT
from .internal_topic import InternalTopic
from .led_partition import LedPartition, MachineT
from .loading import Transactions
from .log import CoordinatorLog

if TYPE_CHECKING:
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0


class LogSettings(NamedTuple):
    """How the logs of a coordinator are read and written."""

    load_buffer_bytes: int
    commit_timeout_ms: int | None
    """None: an append is waited for as long as this broker leads."""
    waits_for_commit: bool = False
    """Whether a partition serves only once everything that was loaded is committed."""


class LedPartitions(Generic[MachineT, RecordT]):
    """The partitions that this broker leads, by their numbers."""

    def __init__(
        self,
        topic: InternalTopic,
        local: "LocalBroker",
        tasks: TaskSupervisor,
        *,
        codec: RecordCodec[RecordT],
        make: Callable[[int], MachineT],
        log_settings: Callable[[], LogSettings],
        perform: "Callable[[LedPartition[MachineT, RecordT], Any], None] | None" = None,
        transactions: Callable[[MachineT], Transactions] | None = None,
        changes: Waiters | None = None,
    ) -> None:
        """`make` creates the machine of a partition, and `perform` carries out its own effects.

        `transactions`: what takes a machine's records of transactions, if there may be any.
        `changes` are told whenever a machine may have changed.
        """
        self._topic = topic
        self._local = local
        self._tasks = tasks
        self._codec = codec
        self._make = make
        self._log_settings = log_settings
        self._perform = perform
        self._transactions = transactions
        self._changes = changes
        self._led: dict[int, LedPartition[MachineT, RecordT]] = {}
        self._counting: asyncio.Task[None] | None = None

    def of(self, key: str) -> LedPartition[MachineT, RecordT]:
        """The partition of a key.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        number = self._topic.partition_of(key)
        if number is None and self._led:  # it may be one of these
            self._begin_to_count()
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        led = None if number is None else self._led.get(number)
        if led is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if led.is_loading:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return led

    def loaded_at(self, number: int) -> LedPartition[MachineT, RecordT] | None:
        """The partition of this number, if it is led here and loaded."""
        led = self._led.get(number)
        return None if led is None or led.is_loading else led

    def has(self, number: int, led: LedPartition[MachineT, RecordT]) -> bool:
        """Whether this broker still leads a partition, as it did when `led` was found."""
        return self._led.get(number) is led

    @property
    def is_loading(self) -> bool:
        """Whether some partitions are not loaded yet."""
        return any(led.is_loading for led in self._led.values())

    def loaded(self) -> list[LedPartition[MachineT, RecordT]]:
        """All loaded partitions."""
        return [led for led in self._led.values() if not led.is_loading]

    def in_use(self) -> set[int]:
        """The numbers of the partitions that hold anything, or are not loaded yet."""
        return {
            number
            for number, led in self._led.items()
            if led.is_loading or next(iter(led.machine.ids), None) is not None
        }

    def all(self) -> Collection[LedPartition[MachineT, RecordT]]:
        """All partitions, loaded or not."""
        return self._led.values()

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition."""
        number = partition.log.partition
        if number in self._led or not partition.is_leader:
            return
        local, settings = self._local, self._log_settings()
        its_log = CoordinatorLog(
            partition,
            self._codec,
            local.clock,
            commit_timeout_ms=settings.commit_timeout_ms,
            note_failure=local.replicas.note_failure,
        )
        machine = self._make(number)
        led = self._led[number] = LedPartition(
            machine,
            its_log,
            local.clock,
            perform=self._perform,
            transactions=None if self._transactions is None else self._transactions(machine),
            changes=self._changes,
        )
        self._tasks.spawn(self._load(number, led), f"load {self._topic.name}-{number}")

    async def _load(self, number: int, led: LedPartition[MachineT, RecordT]) -> None:
        local, settings = self._local, self._log_settings()
        await asyncio.wait([self._begin_to_count()])
        try:
            loaded = await led.load(
                local.runtime.offload,
                buffer_bytes=settings.load_buffer_bytes,
                decompressed_bytes_max=local.config.odradek_decompressed_batch_bytes_max,
                waits_for_commit=settings.waits_for_commit,
            )
        except LogDirFailed as error:
            local.replicas.take_offline(error)
            return
        if loaded is not None and (loaded.record_count or loaded.skipped_count):
            logger.info(
                "coordinator loaded topic=%s partition=%d keys=%d records=%d skipped=%d ms=%d",
                self._topic.name,
                number,
                sum(1 for _ in led.machine.ids),
                *loaded,
            )

    def _begin_to_count(self) -> asyncio.Task[None]:
        """Find the number of partitions, once for all waiting tasks."""
        if self._counting is None or self._counting.done():
            self._counting = self._tasks.spawn(self._count(), f"count {self._topic.name}")
        return self._counting

    async def _count(self) -> None:
        while self._led:
            try:
                await self._topic.count()
                return
            except Refused as refused:
                self._topic.say_shortage(refused)
                await asyncio.sleep(RETRY_S)

    def resign(self, numbers: Collection[int]) -> None:
        """Partitions are led by other brokers, or went offline here."""
        for number in numbers:
            led = self._led.pop(number, None)
            if led is not None:
                led.resign()

    def close(self) -> None:
        """Stop all alarms and any loading."""
        led_before, self._led = self._led, {}
        for led in led_before.values():
            led.close()
