"""JoinGroup 0-9: join a classic group; answered when its next generation begins."""

from collections.abc import Callable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse

from ..core.effects import any_topic
from ..core.groups.classic_answers import join_refused
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from . import Answer


def handle(request: JoinGroupRequest, call: Call, node: Node) -> Answer:
    """Let the group decide."""
    return _handle(request, call, node, any_topic)


def guarded(request: JoinGroupRequest, call: Call, node: Node, rights: Rights) -> Answer:
    """The same; if other members of a consumer group have patterns, the client's rights count."""
    return _handle(request, call, node, rights.may_describe)


def _handle(
    request: JoinGroupRequest, call: Call, node: Node, may_describe: Callable[[str], bool]
) -> Answer:
    def refused(code: ErrorCode) -> JoinGroupResponse:
        return join_refused(call.version, code, request.member_id)

    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    if not node.groups.has_room(sum(len(p.name) + len(p.metadata) for p in request.protocols)):
        return refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
    return node.groups.ask(Shard.join, request.group_id, request, call, refused, may_describe)


def refuse(request: JoinGroupRequest, version: int, code: ErrorCode) -> JoinGroupResponse:
    """Refuse the member."""
    return join_refused(version, code, request.member_id)
