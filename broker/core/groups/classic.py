"""One classic consumer group, as Kafka's group coordinator keeps it.

The clients agree among themselves: each brings the protocols that it can do, with metadata of its
own, the group chooses one, and a member, the leader, assigns for all.  The group holds them
together: it counts generations, notices who is gone, and lets nobody of an older generation in.
Metadata and assignments are opaque, and go back as they came.

    JoinGroup   is parked until the generation begins   (classic_join)
    SyncGroup   is parked until the leader's assignment is written and replicated   (classic_sync)
    Heartbeat   says REBALANCE_IN_PROGRESS if the member shall join again   (classic_sync)
    LeaveGroup  makes the others rebalance   (classic_leave)

`classic_rebalance` has the way from generation to generation and the deadlines, `classic_state` the
states, `classic_roster` the members.

Source of behaviour: GroupCoordinator and GroupMetadata of Apache Kafka 3.9.2.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import GroupMetadataValue
from odradek.protocol.messages.k11_join_group import JoinGroupRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest
from odradek.protocol.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember

from ..effects import Caller, Effect, Reply
from .classic_join import join
from .classic_joining import Joining
from .classic_leave import leave
from .classic_member import ClassicMember, Parked
from .classic_rebalance import Rebalances
from .classic_records import CONSUMER, generation_tombstone, members_from, subscribed_topics
from .classic_state import ClassicState
from .classic_sync import check_generation, heartbeat, sync
from .deadlines import Deadlines
from .group import OffsetOwner, TopicPartition
from .settings import ClassicSettings


class ClassicGroup(Rebalances):
    """A classic group. Methods return what is to be done, in order."""

    @classmethod
    def load(
        cls,
        group_id: str,
        value: GroupMetadataValue,
        settings: Callable[[], ClassicSettings],
        new_member_id: Callable[[str], str],
        now_ms: int,
        wall_ms: int,
    ) -> Self:
        """The group as a record keeps it; its members' sessions begin now."""
        group = cls(group_id, settings, new_member_id, wall_ms)
        group.begin(now_ms, wall_ms)
        members = list({member.member_id: member for member in members_from(value)}.values())
        group.state = ClassicState.STABLE if members else ClassicState.EMPTY
        since_ms = value.current_state_timestamp
        group.state_since_wall_ms = None if since_ms == -1 else since_ms
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type
        group.protocol_name = (value.protocol or "") if members else value.protocol
        for member in members:
            group.roster.add(member)
            group.restart_session(member)
        if members and value.leader in group.roster.members:
            group.roster.leader_id = value.leader
        group.topics = subscribed_topics(group.protocol_type, group.protocol_name, members)
        group.journal.note("loaded", f"generation {group.generation_id}, {len(members)} members")
        if len(members) > settings().group_size_max:
            group.prepare("loaded, and has more members than it may have")
        return group

    # What the shard asks of any group

    @property
    def type_name(self) -> str:
        """What ListGroups shows."""
        return "classic"

    @property
    def state_name(self) -> str:
        """The state as ListGroups names it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not len(self.roster)

    @property
    def is_unused(self) -> bool:
        """Whether nothing would be lost with it but offsets: nobody has joined or is about to."""
        return self.is_empty and self.generation_id == 0 and not self.roster.pending

    @property
    def members(self) -> list[ClassicMember]:
        """The members, the eldest first."""
        return list(self.roster)

    @property
    def leader_id(self) -> str | None:
        """The member that assigns."""
        return self.roster.leader_id

    @property
    def metadata_bytes(self) -> int:
        """What its members have said of themselves."""
        return self.roster.metadata_bytes

    @property
    def wake_ms(self) -> int | None:
        """When to call `on_time` next, or None."""
        return self.deadlines.wake_ms

    def on_time(self, now_ms: int, wall_ms: int) -> Sequence[Effect]:
        """Do what the deadlines demand that have come."""
        self.begin(now_ms, wall_ms)
        self.run_deadlines()
        return self.take_effects()

    # Requests of members

    def join(
        self, request: JoinGroupRequest, caller: Caller, reply: Reply, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Answer a JoinGroup, or park it until the next generation begins."""
        self.begin(now_ms, wall_ms)
        join(self, Joining.read(request, caller, reply))
        wake_ms = self.deadlines.wake_ms
        if wake_ms is not None and wake_ms <= now_ms:
            self.run_deadlines()  # with an initial delay of 0 the generation begins right away
        return self.take_effects()

    def sync(
        self, request: SyncGroupRequest, caller: Caller, reply: Reply, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Answer a SyncGroup, or park it until the leader has assigned."""
        self.begin(now_ms, wall_ms)
        sync(self, request, Parked(caller.version, reply))
        return self.take_effects()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Keep a member's session alive."""
        self.now_ms = now_ms
        return heartbeat(self, request)

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, reply: Reply, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Remove members; the answer is among the effects."""
        self.begin(now_ms, wall_ms)
        leave(self, request, caller.version, reply)
        return self.take_effects()

    def answer_all(self, code: ErrorCode) -> list[Effect]:
        """Answer every parked join and sync with an error, and be Dead.

        For when the group is deleted, converted, or led elsewhere (NOT_COORDINATOR).
        """
        for member in self.roster:
            self.refuse_parked(member, code, member_id=member.member_id)
        self.transition(ClassicState.DEAD)
        self.deadlines = Deadlines()
        self.roster.pending.clear()
        return self.take_effects()

    # Offsets

    def check_offset_commit(
        self, owner: OffsetOwner, partitions: Iterable[TopicPartition], now_ms: int
    ) -> None:
        """Let a commit pass; one by a member counts as a heartbeat.  Raises: Refused."""
        self.now_ms = now_ms
        generation_id = owner.generation_or_epoch
        if self.state is ClassicState.EMPTY and generation_id < 0:
            return
        if generation_id < 0 and not owner.member_id and owner.instance_id is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID  # only members commit while there are any
            if self.state is ClassicState.DEAD:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            code = check_generation(self, owner.member_id, owner.instance_id, generation_id)
        if code is ErrorCode.NONE and self.state is ClassicState.COMPLETING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code is not ErrorCode.NONE:
            raise Refused(code, f"group {self.group_id} is {self.state_name}")
        self.restart_session(self.roster.members[owner.member_id])

    def check_offset_fetch(self, owner: OffsetOwner) -> None:
        """Anyone may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Let offsets be deleted.  Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        if self.protocol_type != CONSUMER or self.state is ClassicState.DEAD:
            self.check_delete()

    def check_delete(self) -> None:
        """Let the group be deleted.  Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        if self.state is ClassicState.DEAD:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.group_id} is Dead")
        if self.state is not ClassicState.EMPTY:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} has members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member consumes the topic; True, too, if that cannot be known."""
        return not self.is_empty and (self.topics is None or topic in self.topics)

    def offsets_expire_since_ms(self, commit_wall_ms: int) -> int | None:
        """From when offsets.retention counts for an offset committed at that time (KIP-211).

        Of a Stable group of consumers only the topics expire that none of them `is_subscribed_to`.
        """
        if self.state is ClassicState.EMPTY and self.protocol_type:
            # As Kafka: from when it became empty, even for what was committed later.
            since_ms = self.state_since_wall_ms
            return commit_wall_ms if since_ms is None else since_ms
        is_known = self.protocol_type == CONSUMER and self.topics is not None
        if (self.state is ClassicState.STABLE and is_known) or not self.protocol_type:
            return commit_wall_ms
        return None

    # What is kept and shown

    def tombstones(self) -> list[GroupRecord]:
        """The record that deletes the group; none if nothing was ever written of it."""
        if self.generation_id == 0:
            return []
        return [generation_tombstone(self.group_id)]

    def describe(self) -> DescribedGroup:
        """The group as DescribeGroups shows it; what the members say only while it is Stable."""
        protocol = self.protocol_name if self.state is ClassicState.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type,
            protocol_data=protocol or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.metadata(protocol),
                    member_assignment=b"" if protocol is None else member.assignment,
                )
                for member in self.roster
            ],
        )
