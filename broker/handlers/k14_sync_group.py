"""SyncGroup 0-5: get a generation's assignment, once the group's leader has sent it."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

from ..core.groups.classic_answers import sync_refused
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: SyncGroupRequest, call: Call, node: Node) -> Answer:
    """Let the group decide; while groups are being loaded, tell the member to rejoin."""
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(Shard.sync, request.group_id, request, call, _refused)


def _refused(code: ErrorCode) -> SyncGroupResponse:
    is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return sync_refused(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else code)


def refuse(request: SyncGroupRequest, version: int, code: ErrorCode) -> SyncGroupResponse:
    """Refuse the member."""
    return sync_refused(code)
