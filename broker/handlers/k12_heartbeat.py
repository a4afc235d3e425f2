"""Heartbeat 0-4: a member of a classic group reports that it is alive."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: HeartbeatRequest, call: Call, node: Node) -> Answer:
    """Let the group decide; while groups are being loaded, answer NONE."""
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(Shard.heartbeat, request.group_id, request, call, _refused)


def _refused(code: ErrorCode) -> HeartbeatResponse:
    is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)
