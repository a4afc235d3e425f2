"""ElectLeaders 0-2: have the controller hold preferred or unclean leader elections.

The answer waits until this broker's metadata shows the new leaders, but no longer than the timeout.
If all partitions are requested, it lists only those that needed an election.
"""

import asyncio
from collections.abc import Collection, Iterable

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

from ..core.elections import ElectionType
from ..core.partition_state import PartitionState, TopicPartition
from ..net.call import Call
from ..node import Node


async def handle(request: ElectLeadersRequest, call: Call, node: Node) -> ElectLeadersResponse:
    """Elect, then wait until the metadata shows the result."""
    asked = None
    if request.topic_partitions is not None:
        topics = request.topic_partitions
        asked = list(dict.fromkeys((t.topic, p) for t in topics for p in t.partitions))
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        refused = Refused(ErrorCode.INVALID_REQUEST, "there is no such type of election")
        return _respond(dict.fromkeys(asked or (), refused), refused.code)
    results: dict[TopicPartition, Refused | None] = {}
    try:
        held = await node.controller.elect_leaders(asked, kind)
    except Refused as refused:  # as in Kafka, without a top-level error code
        return _respond(dict.fromkeys(_every(node) if asked is None else asked, refused))
    elected = [state for state in held.values() if isinstance(state, PartitionState)]
    in_time = await _wait_until_shown(elected, request.timeout_ms, node)
    for partition, outcome in held.items():
        if isinstance(outcome, Refused):
            if asked is not None or outcome.code != ErrorCode.ELECTION_NOT_NEEDED:
                results[partition] = outcome
        else:
            late = not in_time and not _is_shown(outcome, node)
            results[partition] = Refused(ErrorCode.REQUEST_TIMED_OUT) if late else None
    return _respond(results)


def refuse(request: ElectLeadersRequest, version: int, code: ErrorCode) -> ElectLeadersResponse:
    """Refuse each partition."""
    asked = [(t.topic, p) for t in request.topic_partitions or () for p in t.partitions]
    return _respond(dict.fromkeys(asked, Refused(code)), code)


def _every(node: Node) -> Collection[TopicPartition]:
    """All partitions that this broker knows."""
    return [
        (topic, state.partition)
        for topic, info in node.metadata.topics.items()
        for state in info.partitions
    ]


async def _wait_until_shown(states: Iterable[PartitionState], timeout_ms: int, node: Node) -> bool:
    try:
        async with asyncio.timeout(max(0, timeout_ms) / 1000):
            await node.metadata.wait_until(lambda: all(_is_shown(s, node) for s in states))
    except TimeoutError:
        return False
    return True


def _is_shown(elected: PartitionState, node: Node) -> bool:
    shown = node.metadata.partition(elected.topic, elected.partition)
    return shown is not None and shown.leader == elected.leader


def _respond(
    results: dict[TopicPartition, Refused | None], error_code: int = ErrorCode.NONE
) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    for (topic, partition), refused in results.items():
        result = PartitionResult(partition_id=partition, error_message=None)
        if refused is not None:
            result.error_code, result.error_message = refused.code, refused.message
        topics.setdefault(topic, ReplicaElectionResult(topic=topic)).partition_result.append(result)
    return ElectLeadersResponse(
        error_code=error_code, replica_election_results=list(topics.values())
    )
