"""LeaveGroup 0-5: members leave a classic group; from v3 on several at once."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import LeaveGroupRequest

from ..core.groups.classic_answers import leave_refused
from ..groups.coordinator import caller_of
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: LeaveGroupRequest, call: Call, node: Node) -> Answer:
    """Let the group decide."""
    if not request.group_id:
        return leave_refused(ErrorCode.INVALID_GROUP_ID)
    caller = caller_of(call)
    return node.groups.ask(
        request.group_id,
        lambda shard, reply, moment: shard.leave(request, caller, reply, moment),
        leave_refused,
    )
