"""JoinGroup 0-9: become a member of a classic group; answered when its next generation begins."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k11_join_group import JoinGroupRequest

from ..call import Call
from ..core.groups.shard import refused_join
from ..group_coordinator import caller_of
from ..node import Node
from . import Answer


def handle(request: JoinGroupRequest, call: Call, node: Node) -> Answer:
    """Let the group decide."""
    caller = caller_of(call)
    if not request.group_id:
        return refused_join(request, ErrorCode.INVALID_GROUP_ID, caller)
    return node.groups.ask(
        request.group_id,
        lambda shard, reply, moment: shard.join(request, caller, reply, moment),
        lambda code: refused_join(request, code, caller),
    )
