"""OffsetDelete 0: delete a group's committed offsets for topics that it does not consume."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

from ..core.acls.terms import Operation
from ..core.groups.offsets_answers import delete_answer, deletes_in, refuse_delete
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split
from . import Answer
from .partly import completed


def handle(request: OffsetDeleteRequest, call: Call, node: Node) -> Answer:
    """Let the group decide."""
    if not request.group_id:
        return refuse_delete(ErrorCode.INVALID_GROUP_ID)
    return node.groups.ask(Shard.delete_offsets, request.group_id, request, call, refuse_delete)


def guarded(request: OffsetDeleteRequest, call: Call, node: Node, rights: Rights) -> Answer:
    """Delete the offsets for topics that the client may read."""
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.READ, topic.name)
    )
    answer = handle(request, call, node)
    if not refused:
        return answer
    asked = deletes_in(OffsetDeleteRequest(topics=refused))
    others = delete_answer(asked, dict.fromkeys(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    def complete(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            response.topics += others.topics

    return completed(answer, complete)
