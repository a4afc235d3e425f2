"""One classic consumer group, as in Kafka's group coordinator.

The clients do the assignment: each member sends the protocols that it supports, with its own
metadata; the group selects one protocol, and one member, the leader, assigns for all.  The group
coordinates them: it counts generations, detects members that are gone, and fences members of older
generations.  Metadata and assignments are opaque, and are returned unchanged.

    JoinGroup   is parked until the generation begins   (classic_join, classic_static)
    SyncGroup   is parked until the leader's assignment is written and replicated   (classic_sync)
    Heartbeat   returns REBALANCE_IN_PROGRESS if the member must join again   (classic_sync)
    LeaveGroup  makes the others rebalance   (classic_leave)

The requests are functions in those modules that operate on the class here and add to its
`effects`; so is what leads from one generation to the next (`classic_rebalance`).  `classic_state`
defines the states, `classic_roster` the members.

There are three kinds of deadlines.  A member's *session* ends if it sends nothing; it can't send
anything while it waits for a response, so the session does not end then.  The *join* and *sync*
deadlines are those of a rebalance.

Source of behaviour: GroupCoordinator and GroupMetadata of Apache Kafka 3.9.2.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import GroupMetadataValue
from odradek.protocol.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.messages.k15_describe_groups import DescribedGroup, DescribedGroupMember

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, AppendRecords, Caller, Effect, Reply
from ..journal import Journal
from .classic_answers import join_refused, protocol_name_of, sync_refused
from .classic_join import join
from .classic_joining import Joining
from .classic_leave import leave
from .classic_member import ClassicMember, Parked
from .classic_rebalance import (
    complete_if_all_joined,
    on_join_deadline,
    on_sync_deadline,
    prepare,
    prepare_if_possible,
)
from .classic_records import (
    CONSUMER,
    generation_record,
    generation_tombstone,
    members_from,
    subscribed_topics,
)
from .classic_roster import Roster
from .classic_state import TRANSITIONS, ClassicState, Phase
from .classic_sync import check_generation, heartbeat, sync
from .deadlines import Deadlines
from .group import OffsetOwner, TopicPartition
from .settings import ClassicSettings

logger = logging.getLogger(__name__)


class ClassicGroup:
    """A classic group. The methods that the shard calls return effects to perform, in order."""

    def __init__(
        self,
        group_id: str,
        settings: Callable[[], ClassicSettings],
        new_member_id: Callable[[str], str],
        wall_ms: int,
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.new_member_id = new_member_id
        self.journal = Journal()
        self.journal.wall_ms = wall_ms
        self.now_ms = 0
        """The monotonic clock as of the last call. Before the `then` of an effect runs, the shard
        sets it, and the journal's wall clock (`Shard.set_clocks`)."""
        self.state = ClassicState.EMPTY
        self.state_since_wall_ms: int | None = wall_ms
        """When the group entered its state; None if its record is too old to tell."""
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.topics: frozenset[str] | None = None
        """The topics that the members of the last generation consume; None if unknown."""
        self.deadlines: Deadlines[str | Phase] = Deadlines()
        self.effects: list[Effect] = []
        self.is_initial = False
        """Whether the initial rebalance delay is running, which always lasts its full time."""
        self.extendable_ms = 0
        """By how much the initial delay may still be extended in total."""
        self.is_extended = False
        """Whether a member of a new group has joined since the current initial delay began."""

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
        """Restore a group from its record; its members' sessions begin now."""
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
            prepare(group, "loaded, and has more members than it may have")
        return group

    # The interface of any group

    @property
    def type_name(self) -> str:
        """The type as ListGroups names it."""
        return "classic"

    @property
    def state_name(self) -> str:
        """The state as ListGroups names it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not len(self.roster)

    @property
    def is_unused(self) -> bool:
        """Whether the group holds nothing but offsets: no member has joined or is about to."""
        return self.is_empty and self.generation_id == 0 and not self.roster.pending

    @property
    def members(self) -> list[ClassicMember]:
        """The members, oldest first; a static member that came back counts as new."""
        return list(self.roster)

    @property
    def leader_id(self) -> str | None:
        """The member that assigns for all."""
        return self.roster.leader_id

    @property
    def metadata_bytes(self) -> int:
        """The size of the metadata that the members have sent."""
        return self.roster.metadata_bytes

    @property
    def wake_ms(self) -> int | None:
        """When to call `on_time` next, or None."""
        return self.deadlines.wake_ms

    def on_time(self, now_ms: int, wall_ms: int) -> Sequence[Effect]:
        """Handle the deadlines that have passed."""
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
            self.run_deadlines()  # with an initial delay of 0 the generation begins at once
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
        """Remove members; the response is among the effects."""
        self.begin(now_ms, wall_ms)
        leave(self, request, caller.version, reply)
        return self.take_effects()

    def answer_all(self, code: ErrorCode) -> list[Effect]:
        """Answer every parked JoinGroup and SyncGroup with an error, and become Dead.

        Used when the group is converted, or led by another broker (NOT_COORDINATOR).
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
        """Check a commit; one by a member counts as a heartbeat.  Raises: Refused."""
        self.now_ms = now_ms
        generation_id = owner.generation_or_epoch
        if self.state is ClassicState.EMPTY and generation_id < 0:
            return
        if owner.is_nobody:
            code = ErrorCode.UNKNOWN_MEMBER_ID  # only members may commit while there are any
            if self.state is ClassicState.DEAD:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            code = check_generation(self, owner.member_id, owner.instance_id, generation_id)
        if code is ErrorCode.NONE and self.state is ClassicState.COMPLETING_REBALANCE:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code is not ErrorCode.NONE:
            raise Refused(code, f"group {self.group_id} is {self.state_name}")
        self.restart_session(self.roster.members[owner.member_id])

    def check_transactional_commit(
        self, owner: OffsetOwner, partitions: Iterable[TopicPartition]
    ) -> None:
        """Check a commit in a transaction; it may come during a rebalance.  Raises: Refused."""
        generation_id = owner.generation_or_epoch
        from_outside = self.state is ClassicState.EMPTY and generation_id < 0
        if self.state is not ClassicState.DEAD and (owner.is_nobody or from_outside):
            return
        code = check_generation(self, owner.member_id, owner.instance_id, generation_id)
        if code is not ErrorCode.NONE:
            raise Refused(code, f"group {self.group_id} is {self.state_name}")

    def check_offset_fetch(self, owner: OffsetOwner) -> None:
        """Allow every read: any client may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Check whether offsets may be deleted: always in a group of consumers that is not Dead.

        Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND).
        """
        if self.protocol_type != CONSUMER or self.state is ClassicState.DEAD:
            self.check_delete()

    def check_delete(self) -> None:
        """Check that the group is empty.  Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        if self.state is ClassicState.DEAD:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.group_id} is Dead")
        if self.state is not ClassicState.EMPTY:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"group {self.group_id} has members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic; also True if that is unknown."""
        return not self.is_empty and (self.topics is None or topic in self.topics)

    def offsets_expire_since_ms(self, commit_wall_ms: int) -> int | None:
        """When the retention time of an offset committed at that time begins (KIP-211).

        In a Stable group of consumers, only topics that no member subscribes to expire.
        """
        if self.state is ClassicState.EMPTY and self.protocol_type:
            # As in Kafka: from when the group became empty, even for later commits.
            since_ms = self.state_since_wall_ms
            return commit_wall_ms if since_ms is None else since_ms
        is_known = self.protocol_type == CONSUMER and self.topics is not None
        if (self.state is ClassicState.STABLE and is_known) or not self.protocol_type:
            return commit_wall_ms
        return None

    # Records and descriptions

    def tombstones(self) -> list[GroupRecord]:
        """The record that deletes the group; none if the group was never written."""
        if self.generation_id == 0:
            return []
        return [generation_tombstone(self.group_id)]

    def describe(self) -> DescribedGroup:
        """The group for DescribeGroups; metadata and assignments only while it is Stable."""
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

    def store(
        self, assignments: Mapping[str, bytes], then: Callable[[ErrorCode], list[Effect]]
    ) -> None:
        """Write the group's record; `then` gets the code for the clients."""
        record = self.record(assignments)
        self.effects.append(AppendRecords([record], lambda code: then(_client_code(code))))

    def record(self, assignments: Mapping[str, bytes]) -> GroupRecord:
        """The group's record."""
        since_ms = self.state_since_wall_ms
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.roster.leader_id,
            current_state_timestamp=-1 if since_ms is None else since_ms,
        )
        return generation_record(self.group_id, value, self.roster, assignments)

    # Responses

    def answer_join(self, parked: Parked, response: JoinGroupResponse) -> None:
        """Answer a JoinGroup."""
        self.effects.append(Answer(parked.reply, response))

    def answer_sync(self, parked: Parked, response: SyncGroupResponse) -> None:
        """Answer a SyncGroup."""
        self.effects.append(Answer(parked.reply, response))

    def joined(
        self, parked: Parked, member_id: str, *, leader: str | None = None, skip: bool = False
    ) -> JoinGroupResponse:
        """The JoinGroup response for the current generation; the leader's lists all members."""
        leader = self.roster.leader_id or "" if leader is None else leader
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=protocol_name_of(parked.version, self.protocol_name),
            leader=leader,
            skip_assignment=skip,
            member_id=member_id,
            members=self.membership() if leader == member_id else [],
        )

    def membership(self) -> list[JoinGroupResponseMember]:
        """All members of the generation with their metadata, for the leader's assignment."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name or ""),
            )
            for member in self.roster
        ]

    def park_join(self, member: ClassicMember, parked: Parked) -> None:
        """Park a JoinGroup until the next generation; an earlier one gets REBALANCE_IN_PROGRESS."""
        if (before := self.roster.park_join(member, parked)) is not None:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            self.answer_join(before, join_refused(before.version, code, member.member_id))

    def park_sync(self, member: ClassicMember, parked: Parked) -> None:
        """Park a SyncGroup until the assignment; an earlier one gets REBALANCE_IN_PROGRESS."""
        before, member.sync = member.sync, parked
        if before is not None:
            self.answer_sync(before, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))

    def refuse_parked(self, member: ClassicMember, code: ErrorCode, *, member_id: str = "") -> None:
        """Answer a member's parked requests with an error."""
        if (join := self.roster.take_join(member)) is not None:
            self.answer_join(join, join_refused(join.version, code, member_id))
        if member.sync is not None:
            self.answer_sync(member.sync, sync_refused(code))
            member.sync = None

    def finish_syncs(self, code: ErrorCode) -> None:
        """Answer the parked SyncGroups with the assignments, or with an error."""
        for member in self.roster:
            if member.sync is None:
                continue
            refused = code is not ErrorCode.NONE
            self.answer_sync(member.sync, sync_refused(code) if refused else self.synced(member))
            member.sync = None
            self.restart_session(member)

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        """The SyncGroup response with a member's assignment."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    # Members

    def restart_session(self, member: ClassicMember) -> None:
        """Restart a member's session: it has sent a request or was answered."""
        self.deadlines.set(member.member_id, self.now_ms + member.session_timeout_ms)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Check that the client is the member that it claims to be: NONE, or the error."""
        if instance_id is not None:
            current_id = self.roster.member_id_of.get(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.roster.members else ErrorCode.UNKNOWN_MEMBER_ID

    def strike(self, member: ClassicMember, event: str, reason: str) -> None:
        """Remove a member without a rebalance."""
        self.refuse_parked(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.remove(member)
        self.deadlines.clear(member.member_id)
        self.journal.note(event, reason, member.member_id)
        logger.info(
            "member %s group=%s member=%s reason=%s",
            event,
            self.group_id,
            member.member_id,
            reason,
        )

    def remove(self, member: ClassicMember, event: str, reason: str) -> None:
        """Remove a member; the others rebalance."""
        self.strike(member, event, reason)
        if self.state is ClassicState.PREPARING_REBALANCE:
            complete_if_all_joined(self)
        else:
            prepare_if_possible(self, f"member {member.member_id} {event}: {reason}")

    def remove_pending(self, member_id: str) -> None:
        """Drop a member id that was given out but not used to join."""
        self.roster.pending.discard(member_id)
        self.deadlines.clear(member_id)
        complete_if_all_joined(self)

    # Deadlines

    def run_deadlines(self) -> None:
        """Handle the deadlines that have passed."""
        for key in self.deadlines.due(self.now_ms):
            if self.deadlines.get(key) is not None:
                continue  # an earlier one has reset it
            if isinstance(key, str):
                self._on_session_end(key)
            elif key is Phase.SYNC:
                on_sync_deadline(self)
            elif self.state is ClassicState.PREPARING_REBALANCE:
                on_join_deadline(self)

    def _on_session_end(self, member_id: str) -> None:
        if member_id in self.roster.pending:
            self.journal.note("timed-out", "did not join with the id it was given", member_id)
            self.remove_pending(member_id)
        elif (member := self.roster.members.get(member_id)) is None:
            return
        elif member.is_new:
            self.remove(member, "timed-out", "waited too long for its first generation")
        elif not member.is_waiting:
            seconds = member.session_timeout_ms / 1000
            self.remove(member, "timed-out", f"no heartbeat within {seconds:g} s")

    # The state

    def transition(self, state: ClassicState) -> None:
        """Enter a state."""
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
        self.state_since_wall_ms = self.journal.wall_ms

    # Around each call

    def begin(self, now_ms: int, wall_ms: int) -> None:
        """Set the clocks at the beginning of a call."""
        self.now_ms = now_ms
        self.journal.wall_ms = wall_ms

    def take_effects(self) -> list[Effect]:
        """Return the effects collected during a call, at its end."""
        effects, self.effects = self.effects, []
        return effects


def _client_code(code: ErrorCode) -> ErrorCode:
    """The code for clients; as in Kafka, they rejoin if the record was not replicated in time."""
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return coordinator_code_of(code)
