"""LeaveGroup 0-5: one member, or from v3 on several, leave a classic group."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse

from ..core.groups.classic_answers import leave_refused
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: LeaveGroupRequest, call: Call, node: Node) -> Answer:
    """Let the group decide."""
    if not request.group_id:
        return leave_refused(ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(Shard.leave, request.group_id, request, call, leave_refused)


def refuse(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Refuse all members."""
    return leave_refused(code)
