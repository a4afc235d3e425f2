"""A classic group with a clock and a log that tests hold in their hands."""

from collections.abc import Mapping
from typing import TypeVar, cast

from odradek.broker.core.effects import Answer, AppendRecords, Caller, Effect
from odradek.broker.core.groups.classic import ClassicGroup
from odradek.broker.core.groups.settings import ClassicSettings
from odradek.protocol.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.errors import ErrorCode
from odradek.protocol.group_records.classic import GroupMetadataValue
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
from odradek.protocol.schema import Message

M = TypeVar("M", bound=Message)

GROUP = "g"
WALL_MS = 1_700_000_000_000
RANGE = {"range": b"R"}


def subscription(*topics: str) -> bytes:
    """What a consumer writes of itself."""
    return b"\0\3" + ConsumerProtocolSubscription(topics=list(topics)).encode(3)


class Waiting:
    """Who waits for an answer; `now` is that answer, which must have come."""

    def __init__(self, kind: type[Message]) -> None:
        self.kind = kind
        self.response: Message | None = None

    @property
    def is_parked(self) -> bool:
        return self.response is None

    @property
    def code(self) -> ErrorCode:
        response = self.response
        assert isinstance(response, JoinGroupResponse | SyncGroupResponse | LeaveGroupResponse)
        return ErrorCode(response.error_code)


class JoinWaiting(Waiting):
    @property
    def now(self) -> JoinGroupResponse:
        assert isinstance(self.response, JoinGroupResponse)
        return self.response


class SyncWaiting(Waiting):
    @property
    def now(self) -> SyncGroupResponse:
        assert isinstance(self.response, SyncGroupResponse)
        return self.response


class Running:
    """The group, its clocks, and the appends that have not come back."""

    def __init__(self, **settings: int) -> None:
        self.settings = ClassicSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.now_ms = 1_000
        self._ids = 0
        self.group = ClassicGroup(GROUP, lambda: self.settings, self.new_member_id, self.wall_ms)
        self.appends: list[AppendRecords] = []
        self.holds_appends = False
        self.written: list[GroupMetadataValue] = []
        """What the log has taken."""

    @classmethod
    def loaded(cls, value: GroupMetadataValue, **settings: int) -> "Running":
        run = cls(**settings)
        run.group = ClassicGroup.load(
            GROUP, value, lambda: run.settings, run.new_member_id, run.now_ms, run.wall_ms
        )
        return run

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    @property
    def state(self) -> str:
        return self.group.state_name

    def new_member_id(self, of: str) -> str:
        self._ids += 1
        return f"{of}-{self._ids}"

    # Requests

    def join(
        self,
        client: str,
        member_id: str = "",
        *,
        version: int = 9,
        protocols: Mapping[str, bytes] | list[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        instance_id: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        reason: str | None = None,
    ) -> JoinWaiting:
        reply = JoinWaiting(JoinGroupResponse)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data)
                for name, data in (protocols if isinstance(protocols, list) else protocols.items())
            ],
            reason=reason,
        )
        caller = Caller(client, "/127.0.0.1", version)
        self.do(self.group.join(request, caller, reply, self.now_ms, self.wall_ms), version)
        return reply

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int = 5,
        generation_id: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncWaiting:
        reply = SyncWaiting(SyncGroupResponse)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.group.generation_id if generation_id is None else generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type if version >= 5 else None,
            protocol_name=protocol_name if version >= 5 else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=data)
                for key, data in (assignments or {}).items()
            ],
        )
        caller = Caller("client", "/127.0.0.1", version)
        self.do(self.group.sync(request, caller, reply, self.now_ms, self.wall_ms), version)
        return reply

    def heartbeat(
        self, member_id: str, generation_id: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance_id,
            generation_id=self.group.generation_id if generation_id is None else generation_id,
        )
        return self.group.heartbeat(request, self.now_ms)

    def leave(self, *members: MemberIdentity | str, version: int = 5) -> LeaveGroupResponse:
        reply = Waiting(LeaveGroupResponse)
        identities = [
            MemberIdentity(member_id=each) if isinstance(each, str) else each for each in members
        ]
        request = LeaveGroupRequest(group_id=GROUP)
        if version < 3:
            request.member_id = identities[0].member_id
        else:
            request.members = identities
        caller = Caller("client", "/127.0.0.1", version)
        self.do(self.group.leave(request, caller, reply, self.now_ms, self.wall_ms), version)
        assert isinstance(reply.response, LeaveGroupResponse)
        return reply.response

    # The world

    def tick(self, ms: int) -> None:
        """Let time pass, and call the group whenever it wants to be."""
        end_ms = self.now_ms + ms
        while (wake_ms := self.group.wake_ms) is not None and wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, wake_ms)
            self.do(self.group.on_time(self.now_ms, self.wall_ms), None)
        self.now_ms = end_ms

    def do(self, effects: object, version: int | None) -> None:
        """Do what the group wants done, in order."""
        for effect in cast(list[Effect], effects):
            if isinstance(effect, AppendRecords):
                self.appends.append(effect)
                if not self.holds_appends:
                    self.finish_append()
                continue
            assert isinstance(effect, Answer)
            waiting = effect.reply
            assert isinstance(waiting, Waiting), "the reply is not the one that was given"
            assert waiting.response is None, "answered twice"
            assert isinstance(effect.response, waiting.kind)
            if version is not None and not isinstance(effect.response, JoinGroupResponse):
                effect.response.encode(min(version, 5))
            waiting.response = effect.response

    def finish_append(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest append comes back."""
        append = self.appends.pop(0)
        if code is ErrorCode.NONE:
            for record in append.records:
                assert isinstance(record.value, GroupMetadataValue)
                self.written.append(record.value)
        self.group.begin(self.now_ms, self.wall_ms)
        self.do(append.then(code), None)

    # Shortcuts

    def member(self, client: str, **about: object) -> tuple[str, JoinWaiting]:
        """Join as a dynamic member of v4+: once for the id, once for good."""
        refused = self.join(client, **about)  # type: ignore[arg-type]
        assert refused.code is ErrorCode.MEMBER_ID_REQUIRED
        member_id = refused.now.member_id
        return member_id, self.join(client, member_id, **about)  # type: ignore[arg-type]

    def stable(self, *clients: str, **about: object) -> list[str]:
        """Bring a group with these members to Stable; the first one leads."""
        ids = [self.member(clients[0], **about)[0]]
        for client in clients[1:]:
            new_id, _ = self.member(client, **about)
            for member_id in ids:
                self.join(member_id.rsplit("-", 1)[0], member_id, **about)  # type: ignore[arg-type]
            ids.append(new_id)
        self.assign(ids)
        assert self.state == "Stable"
        return ids

    def assign(self, ids: list[str]) -> list[SyncWaiting]:
        """All members sync, the first of them with an assignment for each: its own id."""
        assignments = {member_id: member_id.encode() for member_id in ids}
        return [self.sync(each, assignments if each == ids[0] else None) for each in ids]

    def events(self) -> list[str]:
        """The journal, in words."""
        return [entry.event for entry in self.group.journal.entries()]
