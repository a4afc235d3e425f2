"""ConsumerGroupDescribe 0-1: state, members and assignments of consumer groups (KIP-848).

A group that is named twice is described once: otherwise a small request could return megabytes
many times over.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

from ..core.acls.terms import Operation, ResourceType
from ..core.authorized_operations import ALL_ON_GROUP
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split

TOPICS_REFUSED: Final = "the client may not describe all topics of the group"


def handle(
    request: ConsumerGroupDescribeRequest, call: Call, node: Node
) -> ConsumerGroupDescribeResponse:
    """Describe each group."""
    groups = [_describe(group_id, node) for group_id in dict.fromkeys(request.group_ids)]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_ON_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)


def guarded(
    request: ConsumerGroupDescribeRequest, call: Call, node: Node, rights: Rights
) -> ConsumerGroupDescribeResponse:
    """Describe groups that the client may describe, if it may also describe all their topics."""
    request.group_ids, refused = split(
        request.group_ids, lambda group_id: rights.group(Operation.DESCRIBE, group_id)
    )
    response = handle(request, call, node)
    for group in response.groups:
        if group.error_code == ErrorCode.NONE:
            if request.include_authorized_operations:
                operations = rights.operations(ResourceType.GROUP, group.group_id)
                group.authorized_operations = operations
            if not all(rights.topic(Operation.DESCRIBE, name) for name in _topics_of(group)):
                group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                group.error_message = TOPICS_REFUSED
                group.members = []
    response.groups += [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in dict.fromkeys(refused)
    ]
    return response


def _topics_of(group: DescribedGroup) -> set[str]:
    """The topics that the members have been assigned."""
    return {
        topic
        for member in group.members
        for topic in (
            *(part.topic_name for part in member.assignment.topic_partitions),
            *(part.topic_name for part in member.target_assignment.topic_partitions),
        )
    }


def _describe(group_id: str, node: Node) -> DescribedGroup:
    try:
        if not group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        return node.groups.shard_of(group_id).describe_consumer_group(group_id)
    except Refused as refused:
        return DescribedGroup(
            group_id=group_id, error_code=refused.code, error_message=refused.message
        )
