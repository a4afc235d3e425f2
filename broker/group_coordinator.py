"""The coordinator of the groups whose partitions of `__consumer_offsets` this broker leads.

The machines in `core.groups` decide; here are the things they have no notion of: which partition a
group belongs to, reading it back when this broker becomes its leader, appending, timers, and the
clients that wait for an answer.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.schema import Message
from odradek.storage.errors import LogDirFailed

from .call import Call
from .core.groups.effects import AppendGroupRecords, Caller, Effect, Reply
from .core.groups.group import TopicImage
from .core.groups.member_ids import MemberIds
from .core.groups.moment import Moment
from .core.groups.partitioner import partition_of
from .core.groups.settings import GroupSettings
from .core.groups.shard import Shard
from .core.partition import Partition
from .core.topic_names import GROUP_OFFSETS_TOPIC
from .group_loading import GroupLoader
from .group_log import GroupLog
from .group_settings import group_settings
from .metadata import BrokerInfo, MetadataCache
from .tasks import TaskSupervisor

if TYPE_CHECKING:
    from .node import Node

log = logging.getLogger(__name__)

CREATE_TIMEOUT_MS: Final = 10_000
SHORTAGE_SILENCE_MS: Final = 60_000

Ask = Callable[[Shard, Reply, Moment], Sequence[Effect]]


def caller_of(call: Call) -> Caller:
    """Who asks, as groups keep it."""
    return Caller(call.client_id or "", f"/{call.peer.host}", call.version)


class MetadataTopics:
    """The broker's metadata, as the machines look at it."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    @property
    def version(self) -> int:
        """Rises with every change."""
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


class _Led:
    """A partition of `__consumer_offsets` that this broker leads."""

    def __init__(self, shard: Shard, group_log: GroupLog) -> None:
        self.shard = shard
        self.log = group_log
        self.is_loading = True
        self.armed_ms: dict[str, int] = {}
        """When each group will be looked at, of those that wait for something."""


class _Alarm(NamedTuple):
    """When to look at a group."""

    at_ms: int
    partition: int
    group_id: str


class GroupCoordinator:
    """All groups of this broker."""

    def __init__(self, node: "Node", tasks: TaskSupervisor) -> None:
        self._node = node
        self._tasks = tasks
        self._clock = node.clock
        self._topics = MetadataTopics(node.metadata)
        self._member_ids = MemberIds(node.runtime.random.randbytes)
        self._led: dict[int, _Led] = {}
        self._alarms: list[_Alarm] = []
        self._timer: asyncio.TimerHandle | None = None
        self._creating: asyncio.Task[None] | None = None
        self._shortage_silent_until_ms = 0

    # Where a group is.

    async def coordinator_of(self, group_id: str) -> BrokerInfo:
        """The broker that leads the group's partition; its topic is made if there is none yet.

        Raises: Refused (COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID).
        """
        metadata = self._node.metadata
        if GROUP_OFFSETS_TOPIC not in metadata.topics:
            await self._create_topic()
        state = metadata.partition(GROUP_OFFSETS_TOPIC, self._partition_of(group_id))
        broker = metadata.brokers.get(-1 if state is None else state.leader)
        if broker is None:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC} has no leader"
            )
        return broker

    def shard_of(self, group_id: str) -> Shard:
        """The group's shard.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        return self._led_of(group_id).shard

    def shards(self) -> Iterator[Shard]:
        """All that are loaded."""
        return (led.shard for led in self._led.values() if not led.is_loading)

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not there yet."""
        return any(led.is_loading for led in self._led.values())

    def _led_of(self, group_id: str) -> _Led:
        led = self._led.get(self._partition_of(group_id))
        if led is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        if led.is_loading:
            raise Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return led

    def exists(self, topic: str, partition: int) -> bool:
        """Whether a topic has this partition."""
        return self._node.metadata.partition(topic, partition) is not None

    def moment(self) -> Moment:
        """Now."""
        return Moment(self._clock.now_ms(), self._clock.wall_ms())

    def _partition_of(self, group_id: str) -> int:
        info = self._node.metadata.topics.get(GROUP_OFFSETS_TOPIC)
        count = len(info.partitions) if info and info.partitions else 1
        return partition_of(group_id, count)

    async def _create_topic(self) -> None:
        """Raises: Refused."""
        if self._creating is None or self._creating.done():
            self._creating = asyncio.create_task(self._create_topic_once())
        await asyncio.shield(self._creating)

    async def _create_topic_once(self) -> None:
        config, topics = self._node.config, self._node.topics
        try:
            new = topics.validate_new(
                GROUP_OFFSETS_TOPIC,
                partitions=config.offsets_topic_num_partitions,
                replication_factor=config.offsets_topic_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
            await topics.create(new, timeout_ms=CREATE_TIMEOUT_MS)
        except Refused as refused:
            if refused.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return
            self._say_shortage(refused)
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC}: {refused.message}"
            ) from None

    def _say_shortage(self, refused: Refused) -> None:
        now_ms = self._clock.now_ms()
        if now_ms >= self._shortage_silent_until_ms:
            self._shortage_silent_until_ms = now_ms + SHORTAGE_SILENCE_MS
            log.error(
                "group topic not created topic=%s reason=%s", GROUP_OFFSETS_TOPIC, refused.message
            )

    # Asking the machines.

    def ask(
        self, group_id: str, ask: Ask, refused: Callable[[ErrorCode], Message]
    ) -> Message | asyncio.Future[Message]:
        """Let the group's shard decide; the answer, or what it will come by.

        `refused` makes the answer if there is no such shard here, or not yet.
        """
        try:
            led = self._led_of(group_id)
        except Refused as error:
            return refused(error.code)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._run(led, group_id, ask(led.shard, reply, self.moment()))
        return reply.result() if reply.done() and not reply.cancelled() else reply

    def _run(self, led: _Led, group_id: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendGroupRecords):
                self._append(led, group_id, effect)
            else:
                reply = effect.reply
                assert isinstance(reply, asyncio.Future)
                if not reply.done():  # else the client has hung up
                    reply.set_result(effect.response)
        led.shard.drop_if_unused(group_id)
        self._arm(led, group_id)

    def _append(self, led: _Led, group_id: str, effect: AppendGroupRecords) -> None:
        def then(code: ErrorCode) -> None:
            led.shard.set_clocks(group_id, self.moment())
            self._run(led, group_id, effect.then(code))

        led.log.append(effect.records, then, effect.appended)

    # Timers.

    def _arm(self, led: _Led, group_id: str) -> None:
        group = led.shard.groups.get(group_id)
        at_ms = None if group is None else group.wake_ms
        if at_ms is None:
            return
        armed_ms = led.armed_ms.get(group_id)
        if armed_ms is None or at_ms < armed_ms:
            led.armed_ms[group_id] = at_ms
            heapq.heappush(self._alarms, _Alarm(at_ms, led.shard.partition, group_id))
            if self._alarms[0].at_ms == at_ms:
                self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._alarms:
            wait_ms = max(0, self._alarms[0].at_ms - self._clock.now_ms())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        moment = self.moment()
        while self._alarms and self._alarms[0].at_ms <= moment.now_ms:
            at_ms, partition, group_id = heapq.heappop(self._alarms)
            led = self._led.get(partition)
            if led is None or led.armed_ms.get(group_id) != at_ms:
                continue  # it was armed anew for an earlier time, or has moved away
            del led.armed_ms[group_id]
            self._run(led, group_id, led.shard.on_time(group_id, moment))
        self._set_timer()

    # Leading.

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition of `__consumer_offsets`."""
        number = partition.log.partition
        if number in self._led or not partition.is_leader:
            return
        config = self._node.config
        shard = Shard(
            number,
            settings=self._settings,
            topics=self._topics,
            member_ids=self._member_ids,
        )
        group_log = GroupLog(
            partition,
            self._clock,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            note_failure=self._node.replicas.note_failure,
        )
        led = self._led[number] = _Led(shard, group_log)
        self._tasks.spawn(self._load(led), f"load {GROUP_OFFSETS_TOPIC}-{number}")

    async def _load(self, led: _Led) -> None:
        partition, started_ms = led.shard.partition, self._clock.now_ms()
        kept = led.log.partition.log
        loader = GroupLoader(
            kept,
            led.shard.load,
            buffer_bytes=self._node.config.offsets_load_buffer_size,
            decompressed_bytes_max=self._node.decompressed_bytes_max,
        )
        try:
            await loader.load(self._node.runtime.offload)
        except LogDirFailed as error:
            self._node.replicas.take_offline(error)
            return
        if self._led.get(partition) is not led:
            return  # resigned meanwhile
        led.shard.loaded(self.moment())
        led.is_loading = False
        for group_id in led.shard.groups:
            self._arm(led, group_id)
        if loader.record_count or loader.skipped_count:
            log.info(
                "groups loaded partition=%d groups=%d records=%d skipped=%d ms=%d",
                partition,
                len(led.shard.groups),
                loader.record_count,
                loader.skipped_count,
                self._clock.now_ms() - started_ms,
            )

    def _settings(self, group_id: str) -> GroupSettings:
        config, overrides = self._node.config, self._node.dynamic_configs.group_overrides(group_id)
        return group_settings(config, overrides) if overrides else config.group_settings

    def resign(self, topic: str) -> None:
        """This broker serves the topic no longer; its groups are to be found elsewhere."""
        if topic != GROUP_OFFSETS_TOPIC:
            return
        led_before, self._led = self._led, {}
        for led in led_before.values():
            led.log.close()
            self._run(led, "", led.shard.unload())

    # Housekeeping.

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: nobody needs its offsets."""
        for led in self._led.values():
            if not led.is_loading:
                self._run(led, "", led.shard.forget_topic(topic))

    async def expire_forever(self) -> None:
        """Remove offsets that nobody has used for too long, and groups that are left with none."""
        while True:
            await asyncio.sleep(self._node.config.offsets_retention_check_interval_ms / 1000)
            self.expire()

    def expire(self) -> None:
        """Do it once."""
        for led in list(self._led.values()):
            if not led.is_loading:
                self._run(led, "", led.shard.expire(self.moment()))

    def close(self) -> None:
        """Stop the timer."""
        self._led.clear()
        self._alarms.clear()
        self._set_timer()
