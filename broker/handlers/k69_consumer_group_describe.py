"""ConsumerGroupDescribe 0-1: state, members and assignments of consumer groups (KIP-848).

A group that is named twice is described once: otherwise a small request could return megabytes
many times over.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

from ..core.authorized_operations import ALL_ON_GROUP
from ..net.call import Call
from ..node import Node


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


def _describe(group_id: str, node: Node) -> DescribedGroup:
    try:
        if not group_id:
            raise Refused(ErrorCode.INVALID_GROUP_ID)
        return node.groups.shard_of(group_id).describe_consumer_group(group_id)
    except Refused as refused:
        return DescribedGroup(
            group_id=group_id, error_code=refused.code, error_message=refused.message
        )
