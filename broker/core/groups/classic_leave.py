"""LeaveGroup: members leave, or an administrator removes them by instance id."""

from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity

from ..effects import Answer, Reply
from .classic_answers import leave_answer, leave_refused, members_of
from .classic_joining import REASON_SIZE_MAX
from .classic_state import ClassicState

if TYPE_CHECKING:
    from .classic import ClassicGroup


def leave(group: "ClassicGroup", request: LeaveGroupRequest, version: int, reply: Reply) -> None:
    """Remove the members that can be removed, and answer with a code for each."""
    if group.state is ClassicState.DEAD:
        response = leave_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    else:
        codes = [_leave(group, identity) for identity in members_of(request, version)]
        response = leave_answer(request, version, codes)
    group.effects.append(Answer(reply, response))


def _leave(group: "ClassicGroup", identity: MemberIdentity) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    said = (identity.reason or "")[:REASON_SIZE_MAX]
    reason = f"the client says: {said}" if said else "no reason given"
    if not member_id:
        current_id = None if instance_id is None else group.roster.member_id_of.get(instance_id)
        if current_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group.remove(group.roster.members[current_id], "left", reason)
    elif member_id in group.roster.pending:
        group.journal.note("left", "never joined with the id it was given", member_id)
        group.remove_pending(member_id)
    else:
        code = group.check_member(member_id, instance_id)
        if code is not ErrorCode.NONE:
            return code
        group.remove(group.roster.members[member_id], "left", reason)
    return ErrorCode.NONE
