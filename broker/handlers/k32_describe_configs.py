"""DescribeConfigs 0-4: read the configs of topics, brokers, loggers and groups."""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from ..administration.config_resources import check_broker_id
from ..administration.loggers import logger_levels
from ..config import Described
from ..core.acls.terms import Operation
from ..core.topic_names import check_topic_name
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from ..settings.described import describe_logger
from ..settings.resources import ResourceType
from .config_rights import missing_right


async def handle(
    request: DescribeConfigsRequest, call: Call, node: Node, rights: Rights | None = None
) -> DescribeConfigsResponse:
    """Describe each resource once."""
    unique = {(asked.resource_type, asked.resource_name): asked for asked in request.resources}
    return DescribeConfigsResponse(
        results=[await _describe(resource, request, node, rights) for resource in unique.values()]
    )


guarded = handle


async def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    node: Node,
    rights: Rights | None,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="",  # Kafka's value for no message here
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        if rights is not None:
            _check_right(resource, rights)
        result.configs = [_result(one, request) for one in await _configs(resource, node)]
    except Refused as refused:
        result.error_code, result.error_message = refused.code, refused.message or ""
    return result


def _check_right(resource: DescribeConfigsResource, rights: Rights) -> None:
    kind, name = resource.resource_type, resource.resource_name
    code = missing_right(rights, Operation.DESCRIBE_CONFIGS, kind, name)
    if code is not None:
        raise Refused(code)


async def _configs(resource: DescribeConfigsResource, node: Node) -> list[Described]:
    """The configs of a resource.  Raises: Refused."""
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
        await node.metadata.wait_for_first_word()
        if name not in node.metadata.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return node.config.describe_topic(await node.topics.overrides(name), keys)
    if kind == ResourceType.BROKER:
        if name == "":
            return node.config.describe_cluster(keys)
        check_broker_id(name, node)
        return node.config.describe_broker(keys)
    if kind == ResourceType.BROKER_LOGGER:
        check_broker_id(name, node)
        levels = logger_levels()
        chosen = sorted(set(keys) & levels.keys() if keys else levels)
        return [describe_logger(logger, levels[logger]) for logger in chosen]
    if kind == ResourceType.GROUP:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "there are no configs of all groups: name one")
        return node.config.describe_group(node.dynamic_configs.group_overrides(name), keys)
    raise Refused(ErrorCode.INVALID_REQUEST, f"unsupported resource type {kind}")


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
