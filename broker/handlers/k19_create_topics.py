"""CreateTopics 0-7: create topics, or only validate.

Each topic succeeds or fails by itself. Topics that are created together share the store's commits.
"""

import asyncio
from collections import Counter

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from ..dispatcher import Call
from ..node import Node
from ..topics import NewTopic


async def handle(request: CreateTopicsRequest, call: Call, node: Node) -> CreateTopicsResponse:
    """Create every topic that is named once."""
    named = Counter(topic.name for topic in request.topics)
    results = await asyncio.gather(
        *(_create(topic, named[topic.name] > 1, request, node) for topic in request.topics)
    )
    unique = {result.name: result for result in results}
    return CreateTopicsResponse(topics=list(unique.values()))


async def _create(
    asked: CreatableTopic, is_repeated: bool, request: CreateTopicsRequest, node: Node
) -> CreatableTopicResult:
    try:
        if is_repeated:
            raise Refused(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
        topic = node.topics.validate_new(
            asked.name,
            partitions=asked.num_partitions,
            replication_factor=asked.replication_factor,
            assignment=_assignment(asked),
            configs=_configs(asked),
        )
        if not request.validate_only:
            await node.topics.create(topic, timeout_ms=request.timeout_ms)
        return _created(topic, node, validate_only=request.validate_only)
    except Refused as refused:
        return CreatableTopicResult(
            name=asked.name, error_code=refused.code, error_message=refused.message
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
