"""What coordinators do alike: they lead partitions of a topic, and let a key's shard decide.

The code of a shard, and all that it needs, is imported when there is one to lead.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.schema import Message

from ..core.effects import any_topic
from ..core.partition import Partition
from ..net.call import Call
from .callers import caller_of
from .codec import RecordT

if TYPE_CHECKING:
    from .led_partition import Decide, LedPartition, Machine
    from .led_partitions import LedPartitions

ShardT = TypeVar("ShardT", bound="Machine")
T = TypeVar("T")


class LeadingCoordinator(Generic[ShardT, RecordT]):
    """Keeps its state in the partitions of an internal topic that this broker leads."""

    _shards: "LedPartitions[ShardT, RecordT] | None" = None

    def _make_shards(self) -> "LedPartitions[ShardT, RecordT]":
        raise NotImplementedError

    def ask(
        self,
        decide: "Decide[ShardT, T]",
        key: str,
        request: T,
        call: Call,
        refused: Callable[[ErrorCode], Message],
        may_describe: Callable[[str], bool] = any_topic,
    ) -> Message | asyncio.Future[Message]:
        """Let the shard of a key decide with its method `decide`; the answer, or a future for it.

        `refused` creates the answer if there is no such shard here, or not yet. `may_describe` are
        the client's rights to topics, for requests that may find topics by pattern.
        """
        try:
            led = self._led_of(key)
        except Refused as error:
            return refused(error.code)
        return led.ask(decide, key, request, caller_of(call, may_describe))

    def shard_of(self, key: str) -> ShardT:
        """The shard of a key.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        return self._led_of(key).machine

    def _led_of(self, key: str) -> "LedPartition[ShardT, RecordT]":
        if self._shards is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return self._shards.of(key)

    def shards(self) -> Iterator[ShardT]:
        """All loaded shards."""
        return (led.machine for led in self._loaded())

    @property
    def is_loading(self) -> bool:
        """Whether some shards are not loaded yet."""
        return self._shards is not None and self._shards.is_loading

    def has_loaded(self, number: int) -> bool:
        """Whether this broker leads the shard of this number, and has loaded it."""
        return self._shards is not None and self._shards.loaded_at(number) is not None

    def _loaded(self) -> "Sequence[LedPartition[ShardT, RecordT]]":
        return () if self._shards is None else self._shards.loaded()

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition of the topic."""
        if self._shards is None:
            self._shards = self._make_shards()
        self._shards.lead(partition)

    def numbers_in_use(self) -> set[int]:
        """The partitions that are led here and hold anything."""
        return set() if self._shards is None else self._shards.in_use()

    def resign_partitions(self, partitions: Collection[int]) -> None:
        """Partitions of the topic are led by other brokers, or went offline here."""
        if self._shards is not None:
            self._shards.resign(partitions)

    def close(self) -> None:
        """Stop all alarms and any loading."""
        if self._shards is not None:
            self._shards.close()
