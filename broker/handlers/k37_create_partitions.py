"""CreatePartitions 0-3: add partitions to topics, or only validate.

In v3 partitions that exceed the client's quota are refused; before, only throttled (KIP-599).
"""

import asyncio
from collections import Counter

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..quotas import TopicChanges
from ..rights.rights import Rights, split

STRICT_VERSION_FIRST = 3


async def handle(
    request: CreatePartitionsRequest, call: Call, node: Node
) -> CreatePartitionsResponse:
    """Extend every topic that is named once."""
    named = Counter(topic.name for topic in request.topics)
    changes = TopicChanges(call.usage, is_strict=call.version >= STRICT_VERSION_FIRST)
    unique = {topic.name: topic for topic in request.topics}.values()
    results = await asyncio.gather(
        *(
            _extend(asked, request, node, changes, is_named_once=named[asked.name] == 1)
            for asked in unique
        )
    )
    return CreatePartitionsResponse(throttle_time_ms=changes.throttle_ms, results=results)


async def guarded(
    request: CreatePartitionsRequest, call: Call, node: Node, rights: Rights
) -> CreatePartitionsResponse:
    """Extend the topics that the client may alter."""
    try:
        node.controller.require_active()
    except Refused as inactive:  # without `handle`: this broker may be elected while that waits
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=name, error_code=inactive.code, error_message=inactive.message
                )
                for name in dict.fromkeys(topic.name for topic in request.topics)
            ]
        )
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.ALTER, topic.name)
    )
    response = await handle(request, call, node)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response.results += [
        CreatePartitionsTopicResult(name=name, error_code=code)
        for name in dict.fromkeys(topic.name for topic in refused)
    ]
    return response


async def _extend(
    asked: CreatePartitionsTopic,
    request: CreatePartitionsRequest,
    node: Node,
    changes: TopicChanges,
    *,
    is_named_once: bool,
) -> CreatePartitionsTopicResult:
    result = CreatePartitionsTopicResult(name=asked.name)
    added = None
    if asked.assignments is not None:
        added = [assignment.broker_ids for assignment in asked.assignments]
    try:
        node.controller.require_active()
        if not is_named_once:
            raise Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
        await node.topics.extend(
            asked.name,
            asked.count,
            added,
            validate_only=request.validate_only,
            timeout_ms=request.timeout_ms,
            on_valid=changes.record,
        )
    except Refused as refused:
        result.error_code, result.error_message = refused.code, refused.message
    return result
