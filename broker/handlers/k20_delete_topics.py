"""DeleteTopics 0-6: delete topics, by name or (v6) by id; answered once they are gone.

From v5 on, topics that exceed the client's quota are refused; before, only throttled (KIP-599).
"""

import asyncio
from collections import Counter

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.primitives import ZERO_UUID

from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..quotas import TopicChanges
from ..rights.rights import Rights, split

STATES_VERSION_FIRST = 6
STRICT_VERSION_FIRST = 5
DISABLED_VERSION_FIRST = 3


async def handle(request: DeleteTopicsRequest, call: Call, node: Node) -> DeleteTopicsResponse:
    """Delete every topic that is named once."""
    asked = request.topics
    if call.version < STATES_VERSION_FIRST:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    named = Counter((topic.name, topic.topic_id) for topic in asked)
    results, names = [], []
    changes = TopicChanges(call.usage, is_strict=call.version >= STRICT_VERSION_FIRST)
    for topic in {(topic.name, topic.topic_id): topic for topic in asked}.values():
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        results.append(result)
        try:
            node.controller.require_active()
            if named[topic.name, topic.topic_id] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the topic is named twice")
            name = _existing(topic, call.version, node)
            changes.record(len(node.metadata.topics[name].partitions))
            result.name, result.topic_id = name, node.metadata.topics[name].topic_id
            names.append((result, name))
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message
    await asyncio.gather(*(_delete(result, name, request, node) for result, name in names))
    return DeleteTopicsResponse(throttle_time_ms=changes.throttle_ms, responses=results)


async def guarded(
    request: DeleteTopicsRequest, call: Call, node: Node, rights: Rights
) -> DeleteTopicsResponse:
    """Delete the topics that the client may delete."""
    if not (node.controller.is_active and node.delete_topic_enable):
        return await handle(request, call, node)
    refused: list[DeletableTopicResult] = []

    def is_allowed(name: str | None, topic_id: bytes = ZERO_UUID) -> bool:
        found = name if topic_id == ZERO_UUID else node.metadata.topic_name(topic_id)
        if found is None or rights.topic(Operation.DELETE, found):
            return True
        is_shown = name == found or rights.topic(Operation.DESCRIBE, found, quietly=True)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        shown = found if is_shown else None
        refused.append(DeletableTopicResult(name=shown, topic_id=topic_id, error_code=code))
        return False

    request.topic_names, _ = split(request.topic_names, is_allowed)
    request.topics, _ = split(request.topics, lambda each: is_allowed(each.name, each.topic_id))
    response = await handle(request, call, node)
    response.responses += refused
    return response


async def _delete(
    result: DeletableTopicResult, name: str, request: DeleteTopicsRequest, node: Node
) -> None:
    try:
        await node.topics.delete(name, timeout_ms=request.timeout_ms)
    except Refused as refused:
        result.error_code, result.error_message = refused.code, refused.message


def _existing(asked: DeleteTopicState, version: int, node: Node) -> str:
    """The name of the topic to delete.  Raises: Refused."""
    if not node.delete_topic_enable:
        older = version < DISABLED_VERSION_FIRST
        code = ErrorCode.INVALID_REQUEST if older else ErrorCode.TOPIC_DELETION_DISABLED
        raise Refused(code, "delete.topic.enable is false")
    name = _name_of(asked, node)
    if name not in node.metadata.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return name


def _name_of(asked: DeleteTopicState, node: Node) -> str:
    """The topic's name, looked up by id if necessary.  Raises: Refused."""
    if (asked.name is None) == (asked.topic_id == ZERO_UUID):
        raise Refused(ErrorCode.INVALID_REQUEST, "a topic is deleted by its name or by its id")
    if asked.name is not None:
        return asked.name
    name = node.metadata.topic_name(asked.topic_id)
    if name is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    return name
