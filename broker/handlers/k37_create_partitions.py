"""CreatePartitions 0-3: add partitions to topics, or only validate."""

import asyncio
from collections import Counter

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

from ..call import Call
from ..node import Node

Assignment = dict[int, tuple[int, ...]]


async def handle(
    request: CreatePartitionsRequest, call: Call, node: Node
) -> CreatePartitionsResponse:
    """Extend every topic that is named once."""
    named = Counter(topic.name for topic in request.topics)
    results, valid = [], []
    for asked in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=asked.name)
        results.append(result)
        try:
            if named[asked.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
            valid.append((result, await _validate(asked, node)))
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
    if not request.validate_only:
        await asyncio.gather(*(_extend(result, new, request, node) for result, new in valid))
    return CreatePartitionsResponse(results=results)


async def _validate(asked: CreatePartitionsTopic, node: Node) -> Assignment:
    added = None
    if asked.assignments is not None:
        added = [assignment.broker_ids for assignment in asked.assignments]
    assignment = node.topics.validate_extension(asked.name, asked.count, added)
    await node.topics.check_at_rest(asked.name)
    return assignment


async def _extend(
    result: CreatePartitionsTopicResult,
    assignment: Assignment,
    request: CreatePartitionsRequest,
    node: Node,
) -> None:
    try:
        await node.topics.extend(result.name, assignment, timeout_ms=request.timeout_ms)
    except Refused as refused:
        result.error_code, result.error_message = refused.code, refused.message
