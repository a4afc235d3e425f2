"""Members of a consumer group that still use the classic protocol (KIP-848, online migration).

    JoinGroup   reports the subscription and owned partitions, and moves the member one step
                (`consumer_classic_join`)
    SyncGroup   returns the current assignment, in the bytes that a leader would have sent
    Heartbeat   returns REBALANCE_IN_PROGRESS if there are partitions to revoke or to take: then the
                member joins again
    LeaveGroup  removes members of either protocol

Besides the session there are two timers, both of the rebalance timeout: a member that was told to
join again must do so, and a member that has joined must sync.

Source: behaviour of GroupMetadataManager in Apache Kafka 4.3.1.
"""

from collections.abc import Sequence

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

from ..coordinator_codes import coordinator_code_of
from ..effects import Answer, Caller, Effect, Reply
from .classic_answers import leave_answer, leave_refused, members_of, sync_refused
from .classic_records import CONSUMER
from .classic_sync import lacks_protocol
from .consumer import ConsumerGroup
from .consumer_lookup import static_member, unknown_member
from .consumer_member import ConsumerMember, MemberState, partitions_of
from .consumer_state import GroupState, Timer
from .embedded import read_version, write_assignment


def sync(
    group: ConsumerGroup,
    request: SyncGroupRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    wall_ms: int,
) -> Sequence[Effect]:
    """A member fetches its assignment."""
    if lacks_protocol(request, caller.version):
        return [Answer(reply, sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))]
    try:
        member, assignment = _synced(group, request, now_ms, wall_ms)
    except Refused as refused:
        return [Answer(reply, sync_refused(refused.code))]
    assert member.classic is not None
    group.set_timer(Timer.SYNC, member.member_id, None, now_ms)
    group.set_timer(Timer.SESSION, member.member_id, member.classic.session_timeout_ms, now_ms)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment,
    )
    return [Answer(reply, response)]


def _synced(
    group: ConsumerGroup, request: SyncGroupRequest, now_ms: int, wall_ms: int
) -> tuple[ConsumerMember, bytes]:
    """Raises: Refused."""
    member = _classic_member(group.state, request)
    assert member.classic is not None
    protocol = member.classic.supported_protocols[0]
    wrong_type = request.protocol_type not in (None, CONSUMER)
    if wrong_type or request.protocol_name not in (None, protocol.name):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    behind = member.member_epoch < group.state.assignment_epoch
    if behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(group, member, now_ms)
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    try:
        version = read_version(protocol.metadata)
        topics = group.terms(wall_ms).topics
        return member, write_assignment(partitions_of(member.assigned), version, topics)
    except MalformedMessage as error:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        raise Refused(code, f"Its protocol cannot be read: {error}.") from error


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Keep a member's session alive; tell it to join again if it must revoke or take partitions."""
    try:
        member = _classic_member(group.state, request)
    except Refused as refused:
        return refused.code
    assert member.classic is not None
    group.set_timer(Timer.SESSION, member.member_id, member.classic.session_timeout_ms, now_ms)
    if not _shall_join(group.state, member):
        return ErrorCode.NONE
    _expect_join(group, member, now_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _shall_join(state: GroupState, member: ConsumerMember) -> bool:
    if member.member_epoch < state.assignment_epoch:
        return True
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not _waits_for_others(state, member)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _waits_for_others(state: GroupState, member: ConsumerMember) -> bool:
    """Whether any partition of the member's target that it lacks still has an owner."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and (topic_id, partition) in state.owners
        for topic_id, partitions in state.target_of(member.member_id).items()
        for partition in partitions
    )


def _expect_join(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    if group.deadlines.get((Timer.JOIN, member.member_id)) is None:
        group.set_timer(Timer.JOIN, member.member_id, member.rebalance_timeout_ms, now_ms)


def _classic_member(
    state: GroupState, request: SyncGroupRequest | HeartbeatRequest
) -> ConsumerMember:
    """The member that sends a request; the request must be in its epoch.

    Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION).
    """
    if request.group_instance_id is not None:
        member = static_member(state, request.group_instance_id, request.member_id)
    elif request.member_id in state.members:
        member = state.members[request.member_id]
    else:
        raise unknown_member(state, request.member_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, "It speaks the new protocol.")
    if request.generation_id != member.member_epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    return member


def leave(
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    wall_ms: int,
) -> Sequence[Effect]:
    """Members of either protocol leave, or an administrator removes them."""
    codes: list[ErrorCode] = []
    leaving: dict[str, str] = {}
    for identity in members_of(request, caller.version):
        try:
            leaving[_leaving(group.state, identity).member_id] = "left"
            codes.append(ErrorCode.NONE)
        except Refused as refused:
            codes.append(refused.code)

    def finish(code: ErrorCode) -> Sequence[Effect]:
        if code is not ErrorCode.NONE:
            return [Answer(reply, leave_refused(coordinator_code_of(code)))]
        return [Answer(reply, leave_answer(request, caller.version, codes))]

    return group.remove(leaving, finish, now_ms, wall_ms) if leaving else finish(ErrorCode.NONE)


def _leaving(state: GroupState, identity: MemberIdentity) -> ConsumerMember:
    """Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
    if identity.group_instance_id is not None:
        held = state.static_member(identity.group_instance_id)
        if held is not None and not identity.member_id:
            return held
        return static_member(state, identity.group_instance_id, identity.member_id)
    if identity.member_id not in state.members:
        raise unknown_member(state, identity.member_id)
    return state.members[identity.member_id]
