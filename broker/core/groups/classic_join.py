"""JoinGroup: new members, and members that join again.

new, dynamic, v4+    gets an id and must join again with it, so that a lost response leaves no
                     unused member behind
new, dynamic, v0-3   becomes a member at once
new, static          becomes a member at once; if its instance id is known, it replaces that
                     member, which is fenced  (classic_static)
known                joins again: to change its metadata, to rebalance, or to get the response again
"""

from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode

from .classic_answers import join_refused
from .classic_joining import Joining
from .classic_member import ClassicMember
from .classic_rebalance import complete_if_all_joined, prepare_if_possible
from .classic_state import ClassicState
from .classic_static import replace

if TYPE_CHECKING:
    from .classic import ClassicGroup

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
PENDING_MAX: Final = 10_000
"""The most ids of a group that are given out but not used to join yet; Kafka has no limit."""


def join(group: "ClassicGroup", joining: Joining) -> None:
    """Answer a JoinGroup, or park it."""
    settings = group.settings()
    if not settings.allows_session(joining.session_timeout_ms):
        _refuse(group, joining, ErrorCode.INVALID_SESSION_TIMEOUT, joining.member_id)
        return
    if not _has_place(group, joining.member_id, settings.group_size_max):
        _refuse_place(group, joining)
    elif group.state is ClassicState.DEAD:
        _refuse(group, joining, ErrorCode.COORDINATOR_NOT_AVAILABLE, joining.member_id)
    elif not _fits(group, joining):
        _refuse(group, joining, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, joining.member_id)
    elif joining.member_id:
        _join_known(group, joining)
    elif joining.instance_id is not None:
        _join_static(group, joining, joining.instance_id)
    else:
        _join_dynamic(group, joining)
    complete_if_all_joined(group)


def _refuse(group: "ClassicGroup", joining: Joining, code: ErrorCode, member_id: str) -> None:
    group.answer_join(joining.parked, join_refused(joining.parked.version, code, member_id))


def _has_place(group: "ClassicGroup", member_id: str, size_max: int) -> bool:
    # In PreparingRebalance only the waiting members count. The limit may have been lowered; then
    # the last members to join again are refused.
    members = group.roster.members
    match group.state:
        case ClassicState.EMPTY | ClassicState.DEAD:
            return True
        case ClassicState.PREPARING_REBALANCE:
            waits = member_id in members and members[member_id].join is not None
            return waits or group.roster.joined_count < size_max
        case _:
            return member_id in members or len(members) < size_max


def _refuse_place(group: "ClassicGroup", joining: Joining) -> None:
    _refuse(group, joining, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    member = group.roster.members.get(joining.member_id)
    if member is not None:
        group.strike(member, "refused", "the group has as many members as it may have")
    else:
        group.journal.note("refused", "the group is full", joining.member_id)
        group.remove_pending(joining.member_id)


def _fits(group: "ClassicGroup", joining: Joining) -> bool:
    if group.state is ClassicState.EMPTY:
        return bool(joining.protocol_type and joining.protocols)
    same_type = joining.protocol_type == group.protocol_type
    return same_type and group.roster.can_all_do_one_of(joining.protocols)


# New members


def _join_dynamic(group: "ClassicGroup", joining: Joining) -> None:
    member_id = group.new_member_id(joining.caller.client_id)
    if not joining.is_to_get_an_id:
        _add(group, joining, member_id)
    elif len(group.roster.pending) >= PENDING_MAX:
        _refuse(group, joining, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    else:
        group.roster.pending.add(member_id)
        group.deadlines.set(member_id, group.now_ms + joining.session_timeout_ms)
        group.journal.note("id-given", f"must join with this id{joining.reason}", member_id)
        _refuse(group, joining, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_static(group: "ClassicGroup", joining: Joining, instance_id: str) -> None:
    new_id = group.new_member_id(instance_id)
    old_id = group.roster.member_id_of.get(instance_id)
    if old_id is None:
        _add(group, joining, new_id)
    else:
        replace(group, joining, group.roster.members[old_id], new_id)


def _add(group: "ClassicGroup", joining: Joining, member_id: str) -> None:
    member = ClassicMember(
        member_id=member_id,
        instance_id=joining.instance_id,
        client_id=joining.caller.client_id,
        client_host=joining.caller.client_host,
        session_timeout_ms=joining.session_timeout_ms,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        protocol_type=joining.protocol_type,
        protocols=joining.protocols,
        is_new=True,
    )
    if group.state is ClassicState.PREPARING_REBALANCE and group.generation_id == 0:
        group.is_extended = True
    if not len(group.roster):
        group.protocol_type = joining.protocol_type
    group.roster.add(member)
    group.park_join(member, joining.parked)
    # The member may not know its id yet and return with another one, so its wait is limited.
    group.deadlines.set(member_id, group.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    static = "" if joining.instance_id is None else f" as instance {joining.instance_id}"
    group.journal.note("joined", f"new member{static}{joining.reason}", member_id)
    prepare_if_possible(group, f"member {member_id} joined{static}{joining.reason}")


# Known members


def _join_known(group: "ClassicGroup", joining: Joining) -> None:
    member_id = joining.member_id
    if member_id in group.roster.pending:
        if joining.instance_id is not None:  # only dynamic members get ids in advance
            _refuse(group, joining, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        else:
            _add(group, joining, member_id)
        return
    code = group.check_member(member_id, joining.instance_id)
    if code is not ErrorCode.NONE:
        _refuse(group, joining, code, member_id)
        return
    member = group.roster.members[member_id]
    why = _why_rebalance(group, joining, member)
    if why is None:
        response = group.joined(joining.parked, member_id)
        group.answer_join(joining.parked, response)
    else:
        reason = f"{why}{joining.reason}"
        joining.update(group.roster, member)
        group.park_join(member, joining.parked)
        group.journal.note("joined", reason, member_id)
        prepare_if_possible(group, f"member {member_id}: {reason}")


def _why_rebalance(group: "ClassicGroup", joining: Joining, member: ClassicMember) -> str | None:
    if group.state is ClassicState.PREPARING_REBALANCE:
        return "joined again"
    if member.protocols != joining.protocols:
        return "joined again with changed metadata"
    if group.state is ClassicState.STABLE and member.member_id == group.roster.leader_id:
        return "the leader joined again"  # it may have noticed a change not in its own metadata
    return None
