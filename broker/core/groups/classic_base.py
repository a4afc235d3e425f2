"""What a classic group is made of, and how it answers those who wait."""

from collections.abc import Callable, Mapping
from enum import Enum

from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import GroupMetadataValue
from odradek.protocol.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.k14_sync_group import SyncGroupResponse

from ..effects import Answer, AppendRecords, Effect
from .classic_answers import join_refused, protocol_name_of, sync_refused
from .classic_member import ClassicMember, Parked
from .classic_records import generation_record
from .classic_roster import Roster
from .classic_state import ClassicState
from .codes import group_code_of
from .deadlines import Deadlines
from .journal import Journal
from .settings import ClassicSettings


class Phase(Enum):
    """The deadlines of the whole group; those of its members are kept by member id."""

    JOIN = "join"
    SYNC = "sync"


class ClassicBase:
    """What a classic group is made of; `effects` collects what it wants done."""

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
        """The monotonic clock as of the last call; the shard sets it before the `then` of an
        effect runs (`Shard.set_clocks`), as it does with the journal's."""
        self.state = ClassicState.EMPTY
        self.state_since_wall_ms: int | None = wall_ms
        """When it came into its state; None if its record is too old to tell."""
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.topics: frozenset[str] | None = None
        """What the members of the last generation consume; None if that is not known."""
        self.deadlines: Deadlines[str | Phase] = Deadlines()
        self.effects: list[Effect] = []

    def begin(self, now_ms: int, wall_ms: int) -> None:
        """Note the clocks at the beginning of a call."""
        self.now_ms = now_ms
        self.journal.wall_ms = wall_ms

    def take_effects(self) -> list[Effect]:
        """What is to be done, at the end of a call."""
        effects, self.effects = self.effects, []
        return effects

    # Answers

    def answer_join(self, parked: Parked, response: JoinGroupResponse) -> None:
        """Answer a JoinGroup."""
        self.effects.append(Answer(parked.reply, response))

    def answer_sync(self, parked: Parked, response: SyncGroupResponse) -> None:
        """Answer a SyncGroup."""
        self.effects.append(Answer(parked.reply, response))

    def joined(
        self, parked: Parked, member_id: str, *, leader: str | None = None, skip: bool = False
    ) -> JoinGroupResponse:
        """The current generation, as a member is told of it; its leader hears of all members."""
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
        """All members of the generation, for its leader to assign by."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name or ""),
            )
            for member in self.roster
        ]

    def park_join(self, member: ClassicMember, parked: Parked) -> None:
        """Let a JoinGroup wait for the next generation; an earlier one is told to come again."""
        if (before := self.roster.park_join(member, parked)) is not None:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            self.answer_join(before, join_refused(before.version, code, member.member_id))

    def park_sync(self, member: ClassicMember, parked: Parked) -> None:
        """Let a SyncGroup wait for the assignment; an earlier one is told to start over."""
        before, member.sync = member.sync, parked
        if before is not None:
            self.answer_sync(before, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))

    def refuse_parked(self, member: ClassicMember, code: ErrorCode, *, member_id: str = "") -> None:
        """Answer whatever a member waits for with an error."""
        if (join := self.roster.take_join(member)) is not None:
            self.answer_join(join, join_refused(join.version, code, member_id))
        if member.sync is not None:
            self.answer_sync(member.sync, sync_refused(code))
            member.sync = None

    def finish_syncs(self, code: ErrorCode) -> None:
        """Answer the SyncGroups that wait: with the assignments, or with an error."""
        for member in self.roster:
            if member.sync is None:
                continue
            refused = code is not ErrorCode.NONE
            self.answer_sync(member.sync, sync_refused(code) if refused else self.synced(member))
            member.sync = None
            self.restart_session(member)

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        """A member's assignment."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def restart_session(self, member: ClassicMember) -> None:
        """Something was heard of a member, or it was answered: its session begins anew."""
        self.deadlines.set(member.member_id, self.now_ms + member.session_timeout_ms)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether a client is the member that it claims to be: NONE, or why not."""
        if instance_id is not None:
            current_id = self.roster.member_id_of.get(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.roster.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Records

    def store(
        self, assignments: Mapping[str, bytes], then: Callable[[ErrorCode], list[Effect]]
    ) -> None:
        """Write the group; `then` hears the code for the clients."""
        record = self.record(assignments)
        self.effects.append(AppendRecords([record], lambda code: then(_client_code(code))))

    def record(self, assignments: Mapping[str, bytes]) -> GroupRecord:
        """The group as it is written."""
        since_ms = self.state_since_wall_ms
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.roster.leader_id,
            current_state_timestamp=-1 if since_ms is None else since_ms,
        )
        return generation_record(self.group_id, value, self.roster, assignments)


def _client_code(code: ErrorCode) -> ErrorCode:
    """Kafka lets members start over when the group's record was not replicated in time."""
    if code is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return group_code_of(code)
