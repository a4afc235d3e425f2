"""AlterPartitionReassignments 0: have the controller begin or cancel reassignments.

A successful answer means that a reassignment has begun, or was cancelled. It may not be complete:
ListPartitionReassignments lists those under way.
"""

from collections import Counter

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

from ..core.controller import procedures
from ..core.partition_state import TopicPartition
from ..net.call import Call
from ..node import Node

Wanted = tuple[int, ...] | None


async def handle(
    request: AlterPartitionReassignmentsRequest, call: Call, node: Node
) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel for every partition that is named once."""
    asked: dict[TopicPartition, Wanted] = {}
    named = Counter[TopicPartition]()
    for topic in request.topics:
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            named[key] += 1
            replicas = partition.replicas
            asked[key] = None if replicas is None else tuple(replicas)
    results: dict[TopicPartition, Refused | None] = dict.fromkeys(asked)
    for key in [key for key, count in named.items() if count > 1]:
        del asked[key]
        results[key] = Refused(ErrorCode.INVALID_REQUEST, "the partition is named twice")
    try:
        results.update(
            await node.controller.ask(lambda context: procedures.reassign(context, asked))
        )
    except Refused as refused:
        return AlterPartitionReassignmentsResponse(
            error_code=refused.code, error_message=refused.message or refused.code.name
        )
    return AlterPartitionReassignmentsResponse(error_message="", responses=_responses(results))


def refuse(
    request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    """Refuse each partition."""
    refused = Refused(code)
    keys = ((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=code.name,
        responses=_responses(dict.fromkeys(keys, refused)),
    )


def _responses(
    results: dict[TopicPartition, Refused | None],
) -> list[ReassignableTopicResponse]:
    topics: dict[str, ReassignableTopicResponse] = {}
    for (name, partition), refused in results.items():
        response = ReassignablePartitionResponse(partition_index=partition, error_message=None)
        if refused is not None:
            response.error_code = refused.code
            response.error_message = refused.message or refused.code.name
        topic = topics.setdefault(name, ReassignableTopicResponse(name=name))
        topic.partitions.append(response)
    return list(topics.values())
