"""OffsetDelete 0: delete a group's committed offsets for topics that it does not consume."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k47_offset_delete import OffsetDeleteRequest

from ..core.groups.offsets_answers import refuse_delete
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: OffsetDeleteRequest, call: Call, node: Node) -> Answer:
    """Let the group decide."""
    if not request.group_id:
        return refuse_delete(ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(Shard.delete_offsets, request.group_id, request, call, refuse_delete)
