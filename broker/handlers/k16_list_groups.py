"""ListGroups 0-5: this broker's groups, filtered by state (v4+) and type (v5+)."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights


def handle(request: ListGroupsRequest, call: Call, node: Node) -> ListGroupsResponse:
    """List the matching groups, except those that are still being loaded."""
    states = {state.lower() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type_name,
        )
        for shard in node.groups.shards()
        for group in shard.groups.values()
        if not states or group.state_name.lower() in states
        if not types or group.type_name.lower() in types
    ]
    loading = node.groups.is_loading
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
    return ListGroupsResponse(error_code=code, groups=groups)


def guarded(
    request: ListGroupsRequest, call: Call, node: Node, rights: Rights
) -> ListGroupsResponse:
    """List the groups that the client may describe; all if it may describe the cluster."""
    response = handle(request, call, node)
    if not rights.cluster(Operation.DESCRIBE, quietly=True):
        response.groups = [
            group
            for group in response.groups
            if rights.group(Operation.DESCRIBE, group.group_id, quietly=True)
        ]
    return response
