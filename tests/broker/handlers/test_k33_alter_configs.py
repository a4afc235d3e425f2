import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k33_alter_configs import AlterConfigsResourceResponse
from tests.broker.requests import alter_configs, describe_configs
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


async def alter(
    client: Client, kind: int, name: str, configs: dict[str, str | None], **more: bool
) -> AlterConfigsResourceResponse:
    request = alter_configs(kind, name, configs, **more)
    (response,) = (await client.ask(request, 2)).responses
    assert isinstance(response, AlterConfigsResourceResponse)
    assert (response.resource_type, response.resource_name) == (kind, name)
    assert bool(response.error_message) == (response.error_code != 0)
    return response


async def own_configs(client: Client, kind: int, name: str) -> dict[str, str | None]:
    """What a resource has set itself."""
    (result,) = (await client.ask(describe_configs(kind, name), 4)).results
    own = {TOPIC: 1, BROKER: 2 if name else 3, GROUP: 8}[kind]
    return {config.name: config.value for config in result.configs if config.config_source == own}


@pytest.mark.parametrize(
    ("kind", "name", "first", "second"),
    [
        (TOPIC, "t", {"segment.ms": "5", "max.message.bytes": "7"}, {"segment.ms": "6"}),
        (BROKER, "0", {"log.roll.ms": "5", "message.max.bytes": "7"}, {"log.roll.ms": "6"}),
        (BROKER, "", {"log.roll.ms": "5", "message.max.bytes": "7"}, {"log.roll.ms": "6"}),
        (GROUP, "g", {"consumer.session.timeout.ms": "50000"}, {}),
    ],
)
@on_broker(both=False)
async def test_all_settings_are_replaced(
    broker: RunningBroker,
    kind: int,
    name: str,
    first: dict[str, str | None],
    second: dict[str, str | None],
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for configs in (first, second, {}):
        before = await own_configs(client, kind, name)
        checked = await alter(client, kind, name, configs, validate_only=True)
        assert checked.error_code == 0
        assert await own_configs(client, kind, name) == before
        assert (await alter(client, kind, name, configs)).error_code == 0
        assert await own_configs(client, kind, name) == configs


@on_broker(both=False)
async def test_refusals(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"retention.ms": "1000"})
    invalid, config = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cases: list[tuple[int, str, dict[str, str | None], ErrorCode]] = [
        (TOPIC, "t", {"segment.ms": None}, invalid),
        (TOPIC, "t", {"nope": "1"}, config),
        (TOPIC, "t", {"segment.ms": "x"}, config),
        (TOPIC, "absent", {"segment.ms": "1"}, unknown),
        (TOPIC, "a b", {"segment.ms": "1"}, unknown),
        (TOPIC, "", {"segment.ms": "1"}, invalid),
        (BROKER, "0", {"num.partitions": "1"}, invalid),
        (BROKER, "0", {"log.segment.bytes": None}, invalid),
        (BROKER, "7", {"log.segment.bytes": "1000"}, invalid),
        (BROKER, "x", {"log.segment.bytes": "1000"}, invalid),
        (BROKER_LOGGER, "0", {"odradek": "INFO"}, invalid),
        (CLIENT_METRICS, "c", {"interval.ms": "1"}, invalid),
        (GROUP, "", {}, invalid),
        (GROUP, "g", {"consumer.session.timeout.ms": "1"}, config),
        (0, "t", {}, invalid),
        (-1, "t", {}, invalid),
    ]
    for kind, name, configs, code in cases:
        for validate_only in (True, False):
            response = await alter(client, kind, name, configs, validate_only=validate_only)
            assert response.error_code == code, (kind, name, configs)
    assert await own_configs(client, TOPIC, "t") == {"retention.ms": "1000"}


@on_broker(both=False)
async def test_twice_in_one_request(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    request = alter_configs(TOPIC, "t", {"segment.ms": "5"})
    request.resources *= 2
    responses = (await client.ask(request, 2)).responses
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2
    request = alter_configs(TOPIC, "t", {"segment.ms": "5"})
    request.resources[0].configs *= 2
    (response,) = (await client.ask(request, 2)).responses
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert (await client.ask(alter_configs(TOPIC, "t", {}), 0)).responses[0].error_code == 0
