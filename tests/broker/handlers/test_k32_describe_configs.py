import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.broker.requests import describe_configs
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5


async def describe(
    client: Client, kind: int, name: str, *keys: str, version: int = 4
) -> DescribeConfigsResult:
    (result,) = (await client.ask(describe_configs(kind, name, *keys), version)).results
    assert isinstance(result, DescribeConfigsResult)
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def configs(
    client: Client, kind: int, name: str, *keys: str
) -> dict[str, DescribeConfigsResourceResult]:
    result = await describe(client, kind, name, *keys)
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


@on_broker({"log.segment.bytes": "1048576"}, both=False)
async def test_a_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"retention.ms": "1000"})
    found = await configs(client, TOPIC, "t")
    assert len(found) > 20
    retention, segment, policy = (
        found[n] for n in ("retention.ms", "segment.bytes", "cleanup.policy")
    )
    assert (retention.value, retention.config_source) == ("1000", DYNAMIC_TOPIC)
    first = retention.synonyms[0]
    assert (first.name, first.value, first.source) == ("retention.ms", "1000", DYNAMIC_TOPIC)
    assert (segment.value, segment.config_source) == ("1048576", STATIC_BROKER)
    assert (policy.value, policy.config_source) == ("delete", DEFAULT)
    assert segment.documentation
    assert set(await configs(client, TOPIC, "t", "retention.ms", "absent")) == {"retention.ms"}


@on_broker({"num.partitions": "3"}, both=False)
async def test_the_broker(broker: RunningBroker) -> None:
    client = await broker.client()
    found = await configs(client, BROKER, "0")
    assert len(found) > 200
    assert (found["num.partitions"].value, found["num.partitions"].config_source) == (
        "3",
        STATIC_BROKER,
    )
    assert found["num.partitions"].read_only
    assert set(await configs(client, BROKER, "0", "num.partitions")) == {"num.partitions"}
    assert await configs(client, BROKER, "") == {}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "x", ErrorCode.INVALID_REQUEST),
        (0, "0", ErrorCode.INVALID_REQUEST),
        (-1, "0", ErrorCode.INVALID_REQUEST),
    ],
)
@on_broker(both=False)
async def test_refusals(broker: RunningBroker, kind: int, name: str, code: ErrorCode) -> None:
    client = await broker.client()
    result = await describe(client, kind, name)
    assert (result.error_code, result.configs) == (code, [])


@on_broker(both=False)
async def test_each_resource_is_answered_once(broker: RunningBroker) -> None:
    client = await broker.client()
    request = describe_configs(BROKER, "0")
    request.resources = request.resources * 1000
    assert len((await client.ask(request, 4)).results) == 1
