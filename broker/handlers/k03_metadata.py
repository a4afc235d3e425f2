"""Metadata 0-12: the brokers, and the leaders and replicas of partitions.

A missing topic is created if both the client and auto.create.topics.enable allow it. It is answered
LEADER_NOT_AVAILABLE, as in Kafka: a client that checks a topic that it has just deleted must see
that it is gone, and other clients retry. On a broker that has just started, the answer waits until
a controller has announced all brokers and partitions.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Final, cast

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.primitives import ZERO_UUID

from ..core.acls.terms import Operation, ResourceType
from ..core.authorized_operations import ALL_ON_CLUSTER, ALL_ON_TOPIC, NOT_ASKED_FOR
from ..core.partition_state import NO_LEADER, PartitionState
from ..core.topic_names import (
    GROUP_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    is_internal,
    is_topic_name,
)
from ..member.metadata import TopicInfo
from ..net.call import Call
from ..node import Node
from ..quotas import TopicChanges
from ..rights.rights import Rights, split
from .partly import completed

logger = logging.getLogger(__name__)

TOPIC_ID_VERSION_FIRST: Final = 12
LISTENER_NOT_FOUND_VERSION_FIRST: Final = 6
OFFLINE_REPLICAS_NAMED_VERSION_FIRST: Final = 1
"""Before, unreachable replicas are left out, and the partition has an error code."""
NULL_MEANS_ALL_VERSION_FIRST: Final = 1


def handle(
    request: MetadataRequest, call: Call, node: Node
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer from the cache, or after the znodes of the topics to create have been written."""
    if call.version < TOPIC_ID_VERSION_FIRST and any(map(_is_by_id, request.topics or ())):
        return _refuse_topic_ids(request)
    if not node.metadata.is_told:
        return _respond_once_told(request, call, node)
    missing = _missing(request, node)
    if missing:
        return _create_then_respond(missing, request, call, node)
    return _respond(request, call, node, {})


def guarded(
    request: MetadataRequest, call: Call, node: Node, rights: Rights
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer about topics that the client may describe, and create what it may create."""
    if not node.metadata.is_told:
        return _guarded_once_told(request, call, node, rights)
    if _asks_for_all(request, call):
        response = _respond(request, call, node, {})
        response.topics = [
            topic
            for topic in response.topics
            if rights.topic(Operation.DESCRIBE, topic.name or "", quietly=True)
        ]
        _show_operations(request, response, rights)
        return response
    refused = _take_refused(request, node, rights)
    if not request.topics:  # in v0 that would mean all
        usage = call.usage
        call = Call(max(call.version, NULL_MEANS_ALL_VERSION_FIRST), call.client_id, call.client)
        call.usage = usage
    answer = handle(request, call, node)

    def complete(response: MetadataResponse) -> None:
        _show_operations(request, response, rights)
        response.topics += refused

    return cast(MetadataResponse | Awaitable[MetadataResponse], completed(answer, complete))


async def _guarded_once_told(
    request: MetadataRequest, call: Call, node: Node, rights: Rights
) -> MetadataResponse:
    await node.metadata.wait_for_first_word()
    answer = guarded(request, call, node, rights)
    return await answer if isinstance(answer, Awaitable) else answer


def _take_refused(
    request: MetadataRequest, node: Node, rights: Rights
) -> list[MetadataResponseTopic]:
    """Remove from the request what the client has no right to; return the results for it.

    They do not tell whether the topic exists, unless the client has named it by its id.
    """
    refused: dict[tuple[str | None, bytes], MetadataResponseTopic] = {}

    def is_allowed(asked: MetadataRequestTopic) -> bool:
        name = asked.name
        if asked.topic_id != ZERO_UUID:
            name = node.metadata.topic_name(asked.topic_id)
        if name is None or rights.topic(Operation.DESCRIBE, name):
            if name is None or asked.topic_id != ZERO_UUID or name in node.metadata.topics:
                return True
            if not (node.auto_create and request.allow_auto_topic_creation):
                return True
            if rights.cluster(Operation.CREATE, quietly=True) or (
                rights.topic(Operation.CREATE, name)
            ):
                return True
        named_by_id = asked.topic_id != ZERO_UUID
        key = (None, asked.topic_id) if named_by_id else (name, ZERO_UUID)
        refused[key] = MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=key[0], topic_id=key[1]
        )
        return False

    request.topics, _ = split(request.topics or (), is_allowed)
    return list(refused.values())


def _show_operations(request: MetadataRequest, response: MetadataResponse, rights: Rights) -> None:
    """Replace the bit sets that the client has asked for by those of its rights."""
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = rights.cluster_operations()
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:
                operations = rights.operations(ResourceType.TOPIC, topic.name)
                topic.topic_authorized_operations = operations


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


def _refuse_topic_ids(request: MetadataRequest) -> MetadataResponse:
    """Versions 10 and 11 have the field but do not support it; Kafka refuses the whole request."""
    refused = []
    for asked in request.topics or ():
        topic = _refused(asked.name or "", ErrorCode.INVALID_REQUEST)
        topic.topic_id = asked.topic_id
        refused.append(topic)
    return MetadataResponse(topics=refused)


async def _respond_once_told(request: MetadataRequest, call: Call, node: Node) -> MetadataResponse:
    await node.metadata.wait_for_first_word()
    return await _create_then_respond(_missing(request, node), request, call, node)


async def _create_then_respond(
    missing: list[str], request: MetadataRequest, call: Call, node: Node
) -> MetadataResponse:
    codes = await asyncio.gather(*(_create(node, topic) for topic in missing))
    created = codes.count(ErrorCode.LEADER_NOT_AVAILABLE)
    TopicChanges(call.usage, is_strict=False).record(created * node.config.num_partitions)
    return _respond(request, call, node, dict(zip(missing, codes, strict=True)))


async def _create(node: Node, topic: str) -> ErrorCode:
    """Create a topic; return the code that tells clients to retry, or why it failed."""
    try:
        if topic == GROUP_OFFSETS_TOPIC:
            await node.groups.topic.create(timeout_ms=0)
        elif topic == TRANSACTION_STATE_TOPIC:
            await node.transactions.topic.create(timeout_ms=0)
        else:
            await node.topics.create_if_absent(topic, timeout_ms=0)
    except Refused as refused:
        if refused.code != ErrorCode.REQUEST_TIMED_OUT:
            logger.warning(
                "topic not created topic=%r reason=%s", topic, refused.message or refused.code
            )
            return refused.code
    return ErrorCode.LEADER_NOT_AVAILABLE


def _missing(request: MetadataRequest, node: Node) -> list[str]:
    """The topics to create before the answer."""
    if not request.topics or not (node.auto_create and request.allow_auto_topic_creation):
        return []
    return sorted(
        {
            topic.name
            for topic in request.topics
            if topic.name is not None
            and topic.name not in node.metadata.topics
            and topic.topic_id == ZERO_UUID
            and is_topic_name(topic.name)
        }
    )


def _respond(
    request: MetadataRequest, call: Call, node: Node, refusals: Mapping[str, ErrorCode]
) -> MetadataResponse:
    """`refusals`: the codes of the topics that were to be created."""
    operations = request.include_topic_authorized_operations
    metadata = node.metadata
    response = MetadataResponse(
        brokers=brokers_of(node, call.client.entrance),
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        topics=_topics(
            request, call, node, ALL_ON_TOPIC if operations else NOT_ASKED_FOR, refusals
        ),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_ON_CLUSTER
    return response


def brokers_of(node: Node, listener_name: str) -> list[MetadataResponseBroker]:
    """The live brokers, with their addresses on the client's listener."""
    return [
        MetadataResponseBroker(
            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in node.metadata.brokers.values()
        if (endpoint := broker.endpoints.get(listener_name)) is not None
    ]


def _asks_for_all(request: MetadataRequest, call: Call) -> bool:
    return request.topics is None or (
        call.version < NULL_MEANS_ALL_VERSION_FIRST and not request.topics
    )


def _topics(
    request: MetadataRequest,
    call: Call,
    node: Node,
    operations: int,
    refusals: Mapping[str, ErrorCode],
) -> list[MetadataResponseTopic]:
    known = node.metadata.topics
    if _asks_for_all(request, call):
        return [_topic(info, operations, call, node) for info in known.values()]
    responses = []
    # An id counts alone: with many names for it, a small request could return gigabytes.
    unique = {
        asked.name if asked.topic_id == ZERO_UUID else asked.topic_id: asked
        for asked in request.topics or ()
    }
    for asked in unique.values():
        if asked.topic_id != ZERO_UUID:
            name = node.metadata.topic_name(asked.topic_id)
            if name is None:
                unknown = _refused(None, ErrorCode.UNKNOWN_TOPIC_ID)
                unknown.topic_id = asked.topic_id
                responses.append(unknown)
            else:
                responses.append(_topic(known[name], operations, call, node))
        elif asked.name is None:
            responses.append(_refused(None, ErrorCode.INVALID_REQUEST))
        elif asked.name in known and asked.name not in refusals:
            responses.append(_topic(known[asked.name], operations, call, node))
        else:
            refused = _refused(asked.name, _why_missing(asked.name, node, refusals))
            refused.topic_authorized_operations = operations
            responses.append(refused)
    return responses


def _why_missing(topic: str, node: Node, refusals: Mapping[str, ErrorCode]) -> ErrorCode:
    if not is_topic_name(topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return refusals.get(topic) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(name: str | None, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, is_internal=name is not None and is_internal(name)
    )


def _topic(info: TopicInfo, operations: int, call: Call, node: Node) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=info.name,
        topic_id=info.topic_id,
        is_internal=is_internal(info.name),
        topic_authorized_operations=operations,
        partitions=[_partition(state, call, node) for state in info.partitions],
    )


def _partition(state: PartitionState, call: Call, node: Node) -> MetadataResponsePartition:
    listener_name, metadata = call.client.entrance, node.metadata
    code = metadata.leader_error(state, listener_name)
    leader = state.leader
    if code:
        leader = NO_LEADER
        if call.version < LISTENER_NOT_FOUND_VERSION_FIRST:
            code = ErrorCode.LEADER_NOT_AVAILABLE
    replicas, isr = list(state.replicas), list(state.isr)
    if call.version < OFFLINE_REPLICAS_NAMED_VERSION_FIRST:
        replicas = [r for r in replicas if metadata.is_reached(r, listener_name)]
        isr = [r for r in isr if metadata.is_reached(r, listener_name)]
        incomplete = len(replicas) < len(state.replicas) or len(isr) < len(state.isr)
        if incomplete and not code:
            code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=list(state.offline_replicas),
    )
