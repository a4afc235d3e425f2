"""One classic consumer group, as Kafka's group coordinator keeps it (skeleton)."""

from collections.abc import Callable, Sequence
from typing import Self

from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import GroupMetadataValue
from odradek.protocol.messages.k11_join_group import JoinGroupRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest
from odradek.protocol.messages.k15_describe_groups import DescribedGroup

from .classic_member import ClassicMember
from .classic_state import ClassicState
from .effects import Caller, Effect, Reply
from .group import OffsetOwner
from .journal import Journal
from .settings import ClassicSettings

Settings = Callable[[], ClassicSettings]
NewMemberId = Callable[[str], str]


class ClassicGroup:
    """A classic group. Methods return what is to be done, in order."""

    def __init__(
        self, group_id: str, settings: Settings, new_member_id: NewMemberId, wall_ms: int
    ) -> None:
        self.group_id = group_id
        self.journal = Journal()
        self.state = ClassicState.EMPTY
        self.members: dict[str, ClassicMember] = {}
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.leader_id: str | None = None

    @classmethod
    def load(
        cls,
        group_id: str,
        value: GroupMetadataValue,
        settings: Settings,
        new_member_id: NewMemberId,
        now_ms: int,
        wall_ms: int,
    ) -> Self:
        """The group as a record keeps it; its members' sessions begin now."""
        raise NotImplementedError

    @property
    def type_name(self) -> str:
        """What ListGroups shows."""
        return "classic"

    @property
    def state_name(self) -> str:
        """The state as ListGroups names it."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """ "consumer" for consumers; empty for a group that only keeps offsets."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        raise NotImplementedError

    @property
    def is_simple(self) -> bool:
        """Whether it only keeps offsets that others commit: no member was ever there."""
        raise NotImplementedError

    @property
    def wake_ms(self) -> int | None:
        """When to call `on_time` next, or None."""
        raise NotImplementedError

    def join(
        self, request: JoinGroupRequest, caller: Caller, reply: Reply, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Answer a JoinGroup, or park it until the next generation begins.

        A group that was made for this request and is still unused (`is_unused`) may be dropped.
        """
        raise NotImplementedError

    def sync(
        self, request: SyncGroupRequest, caller: Caller, reply: Reply, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Answer a SyncGroup, or park it until the leader has assigned."""
        raise NotImplementedError

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Keep a member's session alive."""
        raise NotImplementedError

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, reply: Reply, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Remove members; the answer is among the effects."""
        raise NotImplementedError

    def on_time(self, now_ms: int, wall_ms: int) -> Sequence[Effect]:
        """Do what the deadlines demand that have come."""
        raise NotImplementedError

    def answer_all(self, code: ErrorCode) -> list[Effect]:
        """Answer every parked join and sync with an error; the group is Dead then."""
        raise NotImplementedError

    def check_offset_commit(self, owner: OffsetOwner, now_ms: int) -> None:
        """Let a commit pass; one by a member counts as a heartbeat.  Raises: Refused."""
        raise NotImplementedError

    def check_offset_fetch(self, owner: OffsetOwner) -> None:
        """Anyone may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Raises: Refused (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND)."""
        raise NotImplementedError

    def check_delete(self) -> None:
        """Raises: Refused (NON_EMPTY_GROUP)."""
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member consumes the topic; True, too, if that cannot be known."""
        raise NotImplementedError

    def offsets_expire_since_ms(self, commit_wall_ms: int) -> int | None:
        """From when offsets.retention counts for an offset committed at that time (KIP-211)."""
        raise NotImplementedError

    def tombstones(self) -> list[GroupRecord]:
        """The record that deletes the group."""
        raise NotImplementedError

    def describe(self) -> DescribedGroup:
        """The group as DescribeGroups shows it."""
        raise NotImplementedError
