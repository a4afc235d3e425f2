"""DescribeProducers 0: the producer state of partitions, with open transactions.

Followers answer too, with what they have replicated: whoever looks for a hanging transaction may
want to compare replicas.

A partition that is named twice is described once: otherwise a small request could return gigabytes.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
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
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=[_describe(name, index, node) for index in indexes])
            for name, indexes in wanted.items()
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


def _describe(topic: str, index: int, node: Node) -> PartitionResponse:
    response = PartitionResponse(partition_index=index)
    try:
        check_topic_name(topic)
        if topic not in node.metadata.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        partition = node.find(topic, index)
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
