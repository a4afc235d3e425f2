"""Groups of both kinds, with a log that takes or refuses their records, for the migration tests."""

import random
from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from odradek.broker.core.effects import Answer, AppendRecords, Caller, Effect
from odradek.broker.core.groups import consumer_classic
from odradek.broker.core.groups.classic import ClassicGroup
from odradek.broker.core.groups.consumer import ConsumerGroup
from odradek.broker.core.groups.consumer_classic_join import join
from odradek.broker.core.groups.group import Group, TopicImage
from odradek.broker.core.groups.makers import GroupMakers
from odradek.broker.core.groups.member_ids import MemberIds
from odradek.broker.core.groups.migration import Migration
from odradek.broker.core.groups.settings import ClassicSettings, ConsumerSettings, GroupSettings
from odradek.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord, decode_record, encode_record
from odradek.protocol.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.messages.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.schema import Message

GROUP = "g"
WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


class Topics:
    """Topics "t0" and "t1" with 4 partitions each, and more on demand."""

    def __init__(self) -> None:
        self.version = 1
        self.images = {f"t{n}": TopicImage(bytes([n + 1]) * 16, 4) for n in range(2)}

    def get(self, name: str) -> TopicImage | None:
        return self.images.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return next((n for n, image in self.images.items() if image.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return list(self.images)


def subscription(
    *topics: str, owned: dict[str, list[int]] | None = None, version: int = 1, rack: str = ""
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            TopicPartition(topic=name, partitions=some) for name, some in (owned or {}).items()
        ],
        rack_id=rack or None,
    )
    return version.to_bytes(2, "big") + bytes(message.encode(version))


def assigned(data: bytes) -> dict[str, list[int]]:
    message = ConsumerProtocolAssignment.decode(data, int.from_bytes(data[:2], "big"), 2)[0]
    return {topic.topic: topic.partitions for topic in message.assigned_partitions}


class JoinOptions(TypedDict, total=False):
    """What a JoinGroup may say; otherwise it wants t0, by "range"."""

    metadata: bytes
    protocols: tuple[str, ...]
    instance_id: str | None
    protocol_type: str
    version: int
    session_ms: int


class SyncOptions(TypedDict, total=False):
    """What a SyncGroup may say."""

    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    version: int


class World:
    """One group at a time, as a shard would keep it."""

    def __init__(self, *, policy: str = "bidirectional") -> None:
        self.topics = Topics()
        self.settings = GroupSettings(
            classic=ClassicSettings(initial_rebalance_delay_ms=0),
            consumer=ConsumerSettings(migration_policy=policy, assignment_interval_ms=0),
        )
        self.groups: dict[str, Group] = {}
        self.log: list[GroupRecord] = []
        self.refuse = ErrorCode.NONE
        self.now_ms = 1_000
        self.migration = Migration(
            self.groups,
            GroupMakers(
                lambda group_id: self.settings,
                self.topics,
                MemberIds(random.Random(1).randbytes),
            ),
        )
        self.answers: dict[object, Message] = {}
        self._replies = 0

    def set_consumer(self, change: Callable[[ConsumerSettings], ConsumerSettings]) -> None:
        self.settings = self.settings._replace(consumer=change(self.settings.consumer))

    def run(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self.answers[effect.reply] = effect.response
                continue
            assert isinstance(effect, AppendRecords)
            assert effect.records
            if self.refuse is ErrorCode.NONE:
                for record in effect.records:
                    kept = decode_record(*encode_record(record))
                    assert kept is not None
                    self.log.append(kept)
                if effect.appended is not None:
                    effect.appended()
            self.run(effect.then(self.refuse))

    def _reply(self) -> int:
        self._replies += 1
        return self._replies

    @property
    def group(self) -> Group:
        return self.groups[GROUP]

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.group, ClassicGroup)
        return self.group

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    def names(self, since: int = 0) -> list[str]:
        """The kinds of the records, "-" in front of tombstones."""
        return [
            ("-" if value is None else "") + type(key).__name__.removesuffix("Key")
            for key, value in self.log[since:]
        ]

    def pass_time(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.run(self.group.on_time(self.now_ms, WALL_MS))

    # Members with the classic protocol.

    def join_later(self, member_id: str = "", **options: Unpack[JoinOptions]) -> int:
        """Send a JoinGroup; the number under which its answer will be."""
        data = options.get("metadata", subscription("t0"))
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=options.get("instance_id"),
            session_timeout_ms=options.get("session_ms", SESSION_MS),
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type=options.get("protocol_type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data)
                for name in options.get("protocols", ("range",))
            ],
        )
        caller = Caller("classic", "/127.0.0.1", options.get("version", 3))
        reply = self._reply()
        if GROUP not in self.groups:
            self.groups[GROUP] = self.migration.makers.classic(GROUP, WALL_MS)
        group, clocks = self.group, (self.now_ms, WALL_MS)
        if isinstance(group, ClassicGroup):
            self.run(group.join(request, caller, reply, *clocks))
        elif group.is_empty:
            self.run(self.migration.join_empty(self.consumer, request, caller, reply, *clocks))
        else:
            self.run(join(self.consumer, self.migration, request, caller, reply, *clocks))
        return reply

    def joined(self, reply: int) -> JoinGroupResponse:
        response = self.answers.pop(reply)
        assert isinstance(response, JoinGroupResponse)
        return response

    def join(self, member_id: str = "", **options: Unpack[JoinOptions]) -> JoinGroupResponse:
        return self.joined(self.join_later(member_id, **options))

    def sync_later(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        **options: Unpack[SyncOptions],
    ) -> int:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation_id,
            group_instance_id=options.get("instance_id"),
            protocol_type=options.get("protocol_type", "consumer"),
            protocol_name=options.get("protocol_name", "range"),
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
        )
        reply, clocks = self._reply(), (self.now_ms, WALL_MS)
        group = self.group
        if isinstance(group, ClassicGroup):
            caller = Caller("classic", "/127.0.0.1", options.get("version", 5))
            self.run(group.sync(request, caller, reply, *clocks))
        else:
            caller = Caller("classic", "/127.0.0.1", options.get("version", 5))
            self.run(consumer_classic.sync(self.consumer, request, caller, reply, *clocks))
        return reply

    def synced(self, reply: int) -> SyncGroupResponse:
        response = self.answers.pop(reply)
        assert isinstance(response, SyncGroupResponse)
        return response

    def sync(
        self, member_id: str, generation_id: int, **options: Unpack[SyncOptions]
    ) -> SyncGroupResponse:
        return self.synced(self.sync_later(member_id, generation_id, **options))

    def classic_heartbeat(
        self, member_id: str, generation_id: int, instance_id: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=generation_id,
            group_instance_id=instance_id,
        )
        return consumer_classic.heartbeat(self.consumer, request, self.now_ms)

    def leave(self, *identities: MemberIdentity, version: int = 5) -> LeaveGroupResponse:
        request = LeaveGroupRequest(group_id=GROUP, members=list(identities))
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=identities[0].member_id)
        reply, caller = self._reply(), Caller("classic", "/127.0.0.1", version)
        clocks = self.now_ms, WALL_MS
        self.run(consumer_classic.leave(self.consumer, request, caller, reply, *clocks))
        response = self.answers.pop(reply)
        assert isinstance(response, LeaveGroupResponse)
        return response

    def two_classic_members(self) -> tuple[str, str]:
        """A Stable classic group of two, generation 2: t0-0, t0-1 and t0-2, t0-3."""
        first = self.join().member_id
        waits = self.join_later()
        again = self.join(first)
        second = self.joined(waits).member_id
        assert again.generation_id == 2
        halves = {first: [0, 1], second: [2, 3]}
        late = self.sync_later(second, 2)
        bytes_of = {name: assignment({"t0": some}) for name, some in halves.items()}
        self.synced(self.sync_later(first, 2, bytes_of))
        assert assigned(self.synced(late).assignment) == {"t0": [2, 3]}
        return first, second

    # Members with the new protocol.

    def heartbeat(
        self,
        member_id: str = "new",
        epoch: int = 0,
        *,
        topics: Sequence[str] | None = ("t0",),
        owned: dict[str, list[int]] | None = None,
        instance_id: str | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Without `owned` a member that stays does not say what it owns."""
        if epoch == 0:
            owned = {}
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rebalance_timeout_ms=REBALANCE_MS if epoch == 0 else -1,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=self.topics.images[name].topic_id, partitions=some)
                for name, some in owned.items()
            ],
        )
        caller, reply = Caller("modern", "/127.0.0.2", 1), self._reply()
        clocks = self.now_ms, WALL_MS
        group = self.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            self.run(self.migration.upgrade(group, request, caller, reply, *clocks))
        else:
            if group is None:
                self.groups[GROUP] = self.migration.consumer_group(GROUP)
            self.run(self.consumer.heartbeat(request, caller, reply, *clocks))
        response = self.answers.pop(reply)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def owned_by(self, response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]]:
        assert response.assignment is not None
        return {
            self.topics.name_of(topic.topic_id) or "?": topic.partitions
            for topic in response.assignment.topic_partitions
        }


def assignment(partitions: dict[str, list[int]], user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=some)
            for name, some in partitions.items()
        ],
        user_data=user_data,
    )
    return b"\0\1" + bytes(message.encode(1))
