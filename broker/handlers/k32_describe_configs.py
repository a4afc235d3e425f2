"""DescribeConfigs 0-4: read the configurations of topics and of this broker."""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from ..call import Call
from ..config import Described
from ..core.topic_names import check_topic_name
from ..node import Node

TOPIC: Final = 2
BROKER: Final = 4


async def handle(
    request: DescribeConfigsRequest, call: Call, node: Node
) -> DescribeConfigsResponse:
    """Describe each resource once."""
    unique = {(asked.resource_type, asked.resource_name): asked for asked in request.resources}
    return DescribeConfigsResponse(
        results=[await _describe(resource, request, node) for resource in unique.values()]
    )


async def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, node: Node
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="",  # which is how Kafka says nothing here
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        result.configs = [_result(one, request) for one in await _configs(resource, node)]
    except Refused as refused:
        result.error_code, result.error_message = refused.code, refused.message or ""
    return result


async def _configs(resource: DescribeConfigsResource, node: Node) -> list[Described]:
    """Raises: Refused."""
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC:
        check_topic_name(name)
        if name not in node.metadata.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return node.config.describe_topic(await node.topics.overrides(name), keys)
    if resource.resource_type != BROKER:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"unsupported resource type {resource.resource_type}"
        )
    if name == "":
        return []  # the cluster-wide defaults, of which none can be set yet
    if name != str(node.broker_id):
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"this is broker {node.broker_id}, not {name[:100]!r}"
        )
    return node.config.describe_broker(keys)


def _result(one: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        is_default=one.is_default,
        config_source=one.source,
        is_sensitive=one.is_sensitive,
        config_type=one.type_code,
        documentation=one.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in one.synonyms
        ]
    return result
