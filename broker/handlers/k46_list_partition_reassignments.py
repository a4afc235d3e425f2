"""ListPartitionReassignments 0: the partitions that are being reassigned."""

from odradek.protocol.errors import Refused
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from ..net.call import Call
from ..node import Node


def handle(
    request: ListPartitionReassignmentsRequest, call: Call, node: Node
) -> ListPartitionReassignmentsResponse:
    """List the ongoing reassignments among the requested partitions, or all."""
    asked = None
    if request.topics is not None:
        asked = {(topic.name, p) for topic in request.topics for p in topic.partition_indexes}
    topics: dict[str, OngoingTopicReassignment] = {}
    try:
        found = list(node.controller.reassignments())
    except Refused as refused:
        return ListPartitionReassignmentsResponse(
            error_code=refused.code, error_message=refused.message or refused.code.name
        )
    for moving in found:
        if asked is None or (moving.topic, moving.partition) in asked:
            topic = topics.setdefault(moving.topic, OngoingTopicReassignment(name=moving.topic))
            topic.partitions.append(
                OngoingPartitionReassignment(
                    partition_index=moving.partition,
                    replicas=list(moving.replicas),
                    adding_replicas=list(moving.adding),
                    removing_replicas=list(moving.removing),
                )
            )
    return ListPartitionReassignmentsResponse(error_message="", topics=list(topics.values()))
