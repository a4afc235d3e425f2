"""DescribeGroups 0-5: state and members of classic groups; a group that does not exist is Dead.

A group that is named twice is described once: otherwise a small request could return megabytes
many times over.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k15_describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

from ..core.acls.terms import Operation, ResourceType
from ..core.authorized_operations import ALL_ON_GROUP
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split


def handle(request: DescribeGroupsRequest, call: Call, node: Node) -> DescribeGroupsResponse:
    """Describe each group."""
    groups = [_describe(group_id, node) for group_id in dict.fromkeys(request.groups)]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_ON_GROUP
    return DescribeGroupsResponse(groups=groups)


def guarded(
    request: DescribeGroupsRequest, call: Call, node: Node, rights: Rights
) -> DescribeGroupsResponse:
    """Describe the groups that the client may describe."""
    request.groups, refused = split(
        request.groups, lambda group_id: rights.group(Operation.DESCRIBE, group_id)
    )
    response = handle(request, call, node)
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = rights.operations(ResourceType.GROUP, group.group_id)
    response.groups += [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in dict.fromkeys(refused)
    ]
    return response


def _describe(group_id: str, node: Node) -> DescribedGroup:
    try:
        return node.groups.shard_of(group_id).describe(group_id)
    except Refused as refused:
        return DescribedGroup(group_id=group_id, error_code=refused.code)
