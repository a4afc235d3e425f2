"""DescribeProducers 0: the producer state of partitions, with open transactions.

Followers answer too, with what they have replicated: whoever looks for a hanging transaction may
want to compare replicas.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from odradek.storage.log.producer_state import ProducerEntry

from ..core.acls.terms import Operation
from ..core.topic_names import check_topic_name
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split


def handle(request: DescribeProducersRequest, call: Call, node: Node) -> DescribeProducersResponse:
    """Describe the requested partitions, in order."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(topic, index, node) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def guarded(
    request: DescribeProducersRequest, call: Call, node: Node, rights: Rights
) -> DescribeProducersResponse:
    """Describe the producers of topics that the client may read."""
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.READ, topic.name)
    )
    response = handle(request, call, node)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response.topics += [
        TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in refused
    ]
    return response


def _describe(topic: TopicRequest, index: int, node: Node) -> PartitionResponse:
    response = PartitionResponse(partition_index=index)
    try:
        check_topic_name(topic.name)
        if topic.name not in node.metadata.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name!r}")
        partition = node.find(topic.name, index)
    except Refused as refused:
        response.error_code, response.error_message = refused.code, refused.message
    else:
        response.active_producers = [_producer(e) for e in partition.log.producers.entries()]
    return response


def _producer(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
