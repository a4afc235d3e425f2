"""OffsetForLeaderEpoch 0-4: end offsets of leader epochs, for clients that detect truncation."""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split


def handle(
    request: OffsetForLeaderEpochRequest, call: Call, node: Node
) -> OffsetForLeaderEpochResponse:
    """Look up every partition; the end offset of an unknown epoch is -1."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_look_up(topic.topic, asked, node) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def guarded(
    request: OffsetForLeaderEpochRequest, call: Call, node: Node, rights: Rights
) -> OffsetForLeaderEpochResponse:
    """Look up the topics that the client may describe; brokers all."""
    if rights.cluster(Operation.CLUSTER_ACTION, quietly=True):
        return handle(request, call, node)
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.DESCRIBE, topic.topic)
    )
    response = handle(request, call, node)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response.topics += [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(partition=asked.partition, error_code=code)
                for asked in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


def _look_up(topic: str, asked: OffsetForLeaderPartition, node: Node) -> EpochEndOffset:
    result = EpochEndOffset(partition=asked.partition)
    try:
        partition = node.find(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        found = partition.log.end_offset_for_epoch(asked.leader_epoch)
        result.leader_epoch, result.end_offset = found
    except Refused as refused:
        result.error_code = refused.code
    return result
