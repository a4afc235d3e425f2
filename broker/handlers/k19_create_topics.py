"""CreateTopics 0-7: create topics, or only validate.

From v6 on, topics that exceed the client's quota are refused; before, only throttled (KIP-599).
Each topic succeeds or fails by itself. Topics created together share the store's commits.
"""

import asyncio
from collections import Counter
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from ..administration.topics import NewTopic
from ..core.acls.terms import Operation
from ..net.call import Call
from ..node import Node
from ..quotas import TopicChanges
from ..rights.rights import Rights, split
from ..slices import Slices

STRICT_VERSION_FIRST: Final = 6
TOPICS_PER_REQUEST_MAX: Final = 10_000  # Kafka's limit for one request in KRaft mode


async def handle(request: CreateTopicsRequest, call: Call, node: Node) -> CreateTopicsResponse:
    """Create every topic that is named once."""
    named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult] = {}
    valid = []
    changes = TopicChanges(call.usage, is_strict=call.version >= STRICT_VERSION_FIRST)
    slices = Slices(node.clock)
    for asked in {topic.name: topic for topic in request.topics}.values():
        await slices.step()
        try:
            node.controller.require_active()
            if len(named) > TOPICS_PER_REQUEST_MAX:
                raise Refused(ErrorCode.POLICY_VIOLATION, "too many topics in one request")
            if named[asked.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
            topic = _validate(asked, node)
            if request.validate_only:
                await node.topics.check_new(asked.name)
            else:
                changes.record(len(topic.assignment))
        except Refused as refused:
            results[asked.name] = _refused(asked.name, refused)
            continue
        results[asked.name] = _created(topic, node, validate_only=request.validate_only)
        valid.append(topic)
    if not request.validate_only:
        created = await asyncio.gather(*(_create(topic, request, node) for topic in valid))
        results.update((result.name, result) for result in created if result is not None)
    return CreateTopicsResponse(throttle_time_ms=changes.throttle_ms, topics=list(results.values()))


async def guarded(
    request: CreateTopicsRequest, call: Call, node: Node, rights: Rights
) -> CreateTopicsResponse:
    """Create the topics that the client may create, and show the configs that it may describe."""
    try:
        node.controller.require_active()
    except Refused as inactive:  # without `handle`: this broker may be elected while that pauses
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(topics=[_refused(name, inactive) for name in names])
    may_create_all = rights.cluster(Operation.CREATE, quietly=True)
    named = Counter(topic.name for topic in request.topics)
    request.topics, refused = split(
        request.topics,
        lambda topic: (
            may_create_all or named[topic.name] > 1 or rights.topic(Operation.CREATE, topic.name)
        ),
    )
    response = await handle(request, call, node)
    no_right = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    response.topics += [_refused(topic.name, no_right) for topic in refused]
    for result in response.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            continue
        if not rights.topic(Operation.DESCRIBE_CONFIGS, result.name, quietly=True):
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.num_partitions = result.replication_factor = -1
            result.configs = []
    return response


async def _create(
    topic: NewTopic, request: CreateTopicsRequest, node: Node
) -> CreatableTopicResult | None:
    """Create a topic; return a result only if it failed."""
    try:
        await node.topics.create(topic, timeout_ms=request.timeout_ms)
    except Refused as refused:
        return _refused(topic.name, refused)
    return None


def _refused(name: str, refused: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refused.code, error_message=refused.message)


def _validate(asked: CreatableTopic, node: Node) -> NewTopic:
    return node.topics.validate_new(
        asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignment=_assignment(asked),
        configs=_configs(asked),
    )


def _assignment(asked: CreatableTopic) -> dict[int, list[int]]:
    assignment = {a.partition_index: a.broker_ids for a in asked.assignments}
    if len(assignment) != len(asked.assignments):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return assignment


def _configs(asked: CreatableTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    for config in asked.configs:
        if config.value is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{config.name!r} has no value")
        configs[config.name] = config.value
    if len(configs) != len(asked.configs):
        raise Refused(ErrorCode.INVALID_REQUEST, "a config is named twice")
    return configs


def _created(topic: NewTopic, node: Node, *, validate_only: bool) -> CreatableTopicResult:
    result = CreatableTopicResult(
        name=topic.name,
        error_message=None,
        num_partitions=len(topic.assignment),
        replication_factor=topic.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=described.name,
                value=described.value,
                read_only=described.read_only,
                config_source=described.source,
                is_sensitive=described.is_sensitive,
            )
            for described in node.config.describe_topic(topic.configs)
        ],
    )
    if not validate_only:
        result.topic_id = topic.topic_id
    return result
