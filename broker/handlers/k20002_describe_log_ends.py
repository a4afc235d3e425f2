"""DescribeLogEnds 0: the log ends of this broker's replicas. Odradek's own, not advertised.

It works regardless of the leader: its purpose is to compare replicas that have none.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k20002_describe_log_ends import (
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
    LogEndsTopicResult,
    ReplicaLogEnd,
)

from ..net.call import Call
from ..node import Node


def handle(request: DescribeLogEndsRequest, call: Call, node: Node) -> DescribeLogEndsResponse:
    """Look up every replica."""
    return DescribeLogEndsResponse(
        topics=[
            LogEndsTopicResult(
                name=topic.name,
                partitions=[_look_up(topic.name, index, node) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def refuse(
    request: DescribeLogEndsRequest, version: int, code: ErrorCode
) -> DescribeLogEndsResponse:
    """Refuse the request, with the code for every replica."""
    return DescribeLogEndsResponse(
        topics=[
            LogEndsTopicResult(
                name=topic.name,
                partitions=[
                    ReplicaLogEnd(partition_index=index, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _look_up(topic: str, index: int, node: Node) -> ReplicaLogEnd:
    try:
        log = node.find(topic, index).log
    except Refused as refused:
        return ReplicaLogEnd(partition_index=index, error_code=refused.code)
    return ReplicaLogEnd(
        partition_index=index,
        last_epoch=log.epochs.latest,
        log_end_offset=log.log_end_offset,
        is_suspect=(topic, index) in node.replicas.suspects,
    )
