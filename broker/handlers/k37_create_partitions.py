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

from ..dispatcher import Call
from ..node import Node


async def handle(
    request: CreatePartitionsRequest, call: Call, node: Node
) -> CreatePartitionsResponse:
    """Extend every topic that is named once."""
    named = Counter(topic.name for topic in request.topics)
    results = await asyncio.gather(
        *(_extend(topic, named[topic.name] > 1, request, node) for topic in request.topics)
    )
    unique = {result.name: result for result in results}
    return CreatePartitionsResponse(results=list(unique.values()))


async def _extend(
    asked: CreatePartitionsTopic, is_repeated: bool, request: CreatePartitionsRequest, node: Node
) -> CreatePartitionsTopicResult:
    result = CreatePartitionsTopicResult(name=asked.name)
    try:
        if is_repeated:
            raise Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
        added = None
        if asked.assignments is not None:
            added = [assignment.broker_ids for assignment in asked.assignments]
        assignment = node.topics.validate_extension(asked.name, asked.count, added)
        if not request.validate_only:
            await node.topics.extend(asked.name, assignment, timeout_ms=request.timeout_ms)
    except Refused as refused:
        result.error_code, result.error_message = refused.code, refused.message
    return result
