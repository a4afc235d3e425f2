"""The coordinator of the groups whose partitions of `__consumer_offsets` this broker leads.

The code of a shard, and all that it needs, is imported when there is one to lead.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from ..coordination.interface import Session
from ..coordinators.coordinator import LeadingCoordinator
from ..coordinators.internal_topic import InternalTopic, TopicPlan
from ..core.groups.group import TopicImage
from ..core.groups.member_ids import MemberIds
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..core.waiters import Waiters
from ..member.metadata import MetadataCache
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from odradek.protocol.group_records import GroupRecord

    from ..administration.dynamic_configs import DynamicConfigs
    from ..administration.topics import Topics
    from ..config import Config
    from ..coordinators.led_partition import LedPartition
    from ..coordinators.led_partitions import LedPartitions
    from ..core.groups.settings import GroupSettings
    from ..core.groups.shard import Shard
    from ..local_broker import LocalBroker

    LedShard = LedPartition[Shard, GroupRecord]
    LedShards = LedPartitions[Shard, GroupRecord]

T = TypeVar("T")


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


def topic_plan(config: "Config") -> TopicPlan:
    """With what `__consumer_offsets` is created."""
    return TopicPlan(
        partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


class GroupCoordinator(LeadingCoordinator["Shard", "GroupRecord"]):
    """All groups of this broker."""

    def __init__(
        self,
        local: "LocalBroker",
        topics: "Topics",
        configs: "DynamicConfigs",
        session: Session,
        tasks: TaskSupervisor,
    ) -> None:
        self.topic = InternalTopic(GROUP_OFFSETS_TOPIC, topic_plan, local, topics, session)
        self._local = local
        self._configs = configs
        self._tasks = tasks
        self._topics = MetadataTopics(local.metadata)
        self._member_ids = MemberIds(local.runtime.random.randbytes)
        self.changes = Waiters()
        """Told whenever a group or its offsets may have changed."""

    def has_room(self, size_bytes: int) -> bool:
        """Whether there is room for a new member whose description has this size."""
        shards = () if self._shards is None else self._shards.all()
        kept_bytes = sum([led.machine.metadata_bytes for led in shards])
        return kept_bytes + size_bytes <= self._local.config.odradek_group_metadata_bytes_max

    def exists(self, topic: str, partition: int) -> bool:
        """Whether a topic has this partition."""
        return self._local.metadata.partition(topic, partition) is not None

    def _make_shards(self) -> "LedShards":
        from ..coordinators.led_partitions import LedPartitions, LogSettings
        from ..core.groups.shard import Shard
        from .records import GROUP_RECORDS

        config = self._local.config

        def make(number: int) -> Shard:
            return Shard(
                number, settings=self._settings, topics=self._topics, member_ids=self._member_ids
            )

        def log_settings() -> LogSettings:
            return LogSettings(config.offsets_load_buffer_size, config.offsets_commit_timeout_ms)

        return LedPartitions(
            self.topic,
            self._local,
            self._tasks,
            codec=GROUP_RECORDS,
            make=make,
            log_settings=log_settings,
            transactions=lambda shard: shard.offsets,
            changes=self.changes,
        )

    def _settings(self, group_id: str) -> "GroupSettings":
        from .settings import group_settings

        config, overrides = self._local.config, self._configs.group_overrides(group_id)
        return group_settings(config, overrides) if overrides else config.group_settings

    # Transactions.

    def transaction_ended(self, partition: int, producer_id: int, *, is_committed: bool) -> None:
        """A producer's marker is committed in this partition of `__consumer_offsets`.

        Its offsets are committed or dropped when this returns.  Whoever appends markers (requests
        of WriteTxnMarkers) must call this for each partition of the topic, once the high watermark
        has passed the marker and before the answer: the producer goes on after that, and must find
        its offsets.  For a producer, markers must be reported in log order, and before anything of
        its next transaction is appended.

        A partition that is not led here, or is still being read, needs nothing: reading takes the
        marker from the log, and nobody is told offsets before its end.
        """
        led = None if self._shards is None else self._shards.loaded_at(partition)
        if led is not None:
            led.machine.offsets.end_transaction(producer_id, is_committed=is_committed)
            self.changes.wake()

    # Housekeeping.

    def forget_topic(self, topic: str) -> None:
        """Remove the offsets of a deleted topic."""
        if topic == GROUP_OFFSETS_TOPIC:
            self.topic.forget()
        for led in self._loaded():
            led.run(None, led.machine.forget_topic(topic))

    async def expire_forever(self) -> None:
        """Remove offsets that have not been used for too long, and groups that have none left."""
        while True:
            local = self._local
            await local.clock.sleep(local.config.offsets_retention_check_interval_ms)
            self.expire()

    def expire(self) -> None:
        """Do one round of `expire_forever`."""
        for led in self._loaded():
            led.run(None, led.machine.expire(led.moment()))
