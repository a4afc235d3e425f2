"""The coordinator of the groups whose partitions of `__consumer_offsets` this broker leads.

This module knows which partition, and so which broker, a group belongs to, and the shards that this
broker leads. The code of a shard, and all that it needs, is imported when there is one to lead.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.schema import Message
from odradek.storage.errors import LogDirFailed

from ..coordination.interface import Session
from ..core.effects import Caller
from ..core.groups.group import TopicImage
from ..core.groups.member_ids import MemberIds
from ..core.partition import Partition
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..member.metadata import BrokerInfo, MetadataCache
from ..net.call import Call
from ..tasks import TaskSupervisor
from .partitions import GroupPartitions

if TYPE_CHECKING:
    from odradek.protocol.group_records import GroupRecord

    from ..administration.dynamic_configs import DynamicConfigs
    from ..administration.topics import Topics
    from ..coordinators.led_partition import Decide, LedPartition
    from ..core.groups.settings import GroupSettings
    from ..core.groups.shard import Shard
    from ..local_broker import LocalBroker

    LedShard = LedPartition[Shard, GroupRecord]

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_MS: Final = 10_000
SHORTAGE_SILENCE_MS: Final = 60_000
RETRY_S: Final = 1.0

T = TypeVar("T")


def caller_of(call: Call) -> Caller:
    """The client of a request, in the form that groups keep."""
    return Caller(call.client_id or "", f"/{call.client.host}", call.version)


class MetadataTopics:
    """The broker's metadata, in the form that the machines use."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    @property
    def version(self) -> int:
        """Increases with every change."""
        return self._metadata.version

    def get(self, name: str) -> TopicImage | None:
        """A topic, or None."""
        info = self._metadata.topics.get(name)
        return None if info is None else TopicImage(info.topic_id, len(info.partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        """The name behind an id."""
        return self._metadata.topic_name(topic_id)

    def names(self) -> Sequence[str]:
        """All topics."""
        return list(self._metadata.topics)


class GroupCoordinator:
    """All groups of this broker."""

    def __init__(
        self,
        local: "LocalBroker",
        topics: "Topics",
        configs: "DynamicConfigs",
        session: Session,
        tasks: TaskSupervisor,
    ) -> None:
        self._local = local
        self._administration = topics
        self._configs = configs
        self._tasks = tasks
        self._topics = MetadataTopics(local.metadata)
        self._member_ids = MemberIds(local.runtime.random.randbytes)
        self._led: dict[int, LedShard] = {}
        self._shortage_silent_until_ms = 0
        self._partitions = GroupPartitions(local.metadata, session)
        self._counting: asyncio.Task[None] | None = None

    # Finding a group.

    async def coordinator_of(self, group_id: str) -> BrokerInfo:
        """The broker that leads the group's partition; creates the topic if it does not exist.

        Raises: Refused (COORDINATOR_NOT_AVAILABLE).
        """
        metadata = self._local.metadata
        if GROUP_OFFSETS_TOPIC not in metadata.topics:
            self._partitions.forget()
            try:
                await self.create_topic(timeout_ms=CREATE_TIMEOUT_MS)
            except Refused as refused:
                self._say_shortage(refused)
                raise Refused(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC}: {refused.message}"
                ) from None
        if (number := self._partitions.of(group_id)) is None:
            await self._partitions.learn()
            number = self._partitions.of(group_id)
            assert number is not None
        state = metadata.partition(GROUP_OFFSETS_TOPIC, number)
        broker = metadata.brokers.get(-1 if state is None else state.leader)
        if broker is None:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC} has no leader"
            )
        return broker

    async def create_topic(self, *, timeout_ms: int) -> None:
        """Create the topic of the groups, unless it exists.  Raises: Refused."""
        config = self._local.config
        await self._administration.create_if_absent(
            GROUP_OFFSETS_TOPIC,
            partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
            timeout_ms=timeout_ms,
        )

    def _say_shortage(self, refused: Refused) -> None:
        now_ms = self._local.clock.now_ms()
        if now_ms >= self._shortage_silent_until_ms:
            self._shortage_silent_until_ms = now_ms + SHORTAGE_SILENCE_MS
            logger.error(
                "groups not served topic=%s reason=%s", GROUP_OFFSETS_TOPIC, refused.message
            )

    # Requests.

    def ask(
        self,
        decide: "Decide[Shard, T]",
        group_id: str,
        request: T,
        call: Call,
        refused: Callable[[ErrorCode], Message],
    ) -> Message | asyncio.Future[Message]:
        """Let the group's shard decide with its method `decide`; the answer, or a future for it.

        `refused` creates the answer if there is no such shard here, or not yet.
        """
        try:
            led = self._led_of(group_id)
        except Refused as error:
            return refused(error.code)
        return led.ask(decide, group_id, request, caller_of(call))

    def shard_of(self, group_id: str) -> "Shard":
        """The group's shard.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        return self._led_of(group_id).machine

    def _led_of(self, group_id: str) -> "LedShard":
        number = self._partitions.of(group_id)
        if number is None and self._led:  # it may be one of these
            self._begin_to_count()
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        led = None if number is None else self._led.get(number)
        if led is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if led.is_loading:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return led

    def shards(self) -> Iterator["Shard"]:
        """All loaded shards."""
        return (led.machine for led in self._loaded())

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not loaded yet."""
        return any(led.is_loading for led in self._led.values())

    def _loaded(self) -> list["LedShard"]:
        return [led for led in self._led.values() if not led.is_loading]

    def has_room(self, size_bytes: int) -> bool:
        """Whether there is room for a new member whose description has this size."""
        kept_bytes = sum([led.machine.metadata_bytes for led in self._led.values()])
        return kept_bytes + size_bytes <= self._local.config.odradek_group_metadata_bytes_max

    def exists(self, topic: str, partition: int) -> bool:
        """Whether a topic has this partition."""
        return self._local.metadata.partition(topic, partition) is not None

    # Leading.

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition of `__consumer_offsets`."""
        from ..coordinators.led_partition import LedPartition
        from ..coordinators.log import CoordinatorLog
        from ..core.groups.shard import Shard
        from .records import GROUP_RECORDS

        number = partition.log.partition
        if number in self._led or not partition.is_leader:
            return
        local = self._local
        shard = Shard(
            number, settings=self._settings, topics=self._topics, member_ids=self._member_ids
        )
        group_log = CoordinatorLog(
            partition,
            GROUP_RECORDS,
            local.clock,
            commit_timeout_ms=local.config.offsets_commit_timeout_ms,
            note_failure=local.replicas.note_failure,
        )
        led = self._led[number] = LedPartition(shard, group_log, local.clock)
        self._tasks.spawn(self._load(led), f"load {GROUP_OFFSETS_TOPIC}-{number}")

    def _begin_to_count(self) -> asyncio.Task[None]:
        """Find the number of partitions, once for all waiting tasks."""
        if self._counting is None or self._counting.done():
            self._counting = self._tasks.spawn(self._count(), f"count {GROUP_OFFSETS_TOPIC}")
        return self._counting

    async def _count(self) -> None:
        while self._led:
            try:
                await self._partitions.learn()
                return
            except Refused as refused:
                self._say_shortage(refused)
                await asyncio.sleep(RETRY_S)

    async def _load(self, led: "LedShard") -> None:
        local = self._local
        await asyncio.wait([self._begin_to_count()])
        try:
            loaded = await led.load(
                local.runtime.offload,
                buffer_bytes=local.config.offsets_load_buffer_size,
                decompressed_bytes_max=local.config.odradek_decompressed_batch_bytes_max,
            )
        except LogDirFailed as error:
            local.replicas.take_offline(error)
            return
        if loaded is not None and (loaded.record_count or loaded.skipped_count):
            logger.info(
                "groups loaded partition=%d groups=%d records=%d skipped=%d ms=%d",
                led.machine.partition,
                len(led.machine.groups),
                *loaded,
            )

    def _settings(self, group_id: str) -> "GroupSettings":
        from .settings import group_settings

        config, overrides = self._local.config, self._configs.group_overrides(group_id)
        return group_settings(config, overrides) if overrides else config.group_settings

    def resign_partitions(self, partitions: Collection[int]) -> None:
        """Partitions of `__consumer_offsets` are led by other brokers, or went offline here."""
        for partition in partitions:
            led = self._led.pop(partition, None)
            if led is not None:
                led.resign()

    # Housekeeping.

    def forget_topic(self, topic: str) -> None:
        """Remove the offsets of a deleted topic."""
        if topic == GROUP_OFFSETS_TOPIC:
            self._partitions.forget()
        for led in self._loaded():
            led.run(None, led.machine.forget_topic(topic))

    async def expire_forever(self) -> None:
        """Remove offsets that have not been used for too long, and groups that have none left."""
        while True:
            await asyncio.sleep(self._local.config.offsets_retention_check_interval_ms / 1000)
            self.expire()

    def expire(self) -> None:
        """Do one round of `expire_forever`."""
        for led in self._loaded():
            led.run(None, led.machine.expire(led.moment()))

    def close(self) -> None:
        """Stop all alarms and any loading."""
        led_before, self._led = self._led, {}
        for led in led_before.values():
            led.close()
