"""DescribeLogEnds 0: where the logs of this broker's replicas end. Odradek's own, not advertised.

Whoever leads, and also where nobody does: that is what it is for.
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
    """Look at every replica."""
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
    """Refused, of each replica."""
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
