import logging
from pathlib import Path

from odradek.broker.administration.loggers import logger_levels
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k32_describe_configs import DescribeConfigsResourceResult
from odradek.protocol.messages.k44_incremental_alter_configs import AlterConfigsResourceResponse
from tests.broker.requests import change_configs, describe_configs
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


async def change(
    client: Client, kind: int, name: str, *changes: Change, **more: bool
) -> AlterConfigsResourceResponse:
    (response,) = (await client.ask(change_configs(kind, name, *changes, **more), 1)).responses
    assert isinstance(response, AlterConfigsResourceResponse)
    assert (response.resource_type, response.resource_name) == (kind, name)
    assert bool(response.error_message) == (response.error_code != 0)
    return response


async def one(client: Client, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (result,) = (await client.ask(describe_configs(kind, name, key), 4)).results
    (config,) = result.configs
    assert isinstance(config, DescribeConfigsResourceResult)
    return config


@on_broker(both=False)
async def test_a_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"retention.ms": "1000", "cleanup.policy": "compact"})
    ask = ("segment.ms", SET, "5"), ("retention.ms", DELETE, None)
    assert (await change(client, TOPIC, "t", *ask, validate_only=True)).error_code == 0
    assert (await one(client, TOPIC, "t", "segment.ms")).config_source == 5
    assert (await change(client, TOPIC, "t", *ask)).error_code == 0
    assert (await one(client, TOPIC, "t", "segment.ms")).value == "5"
    assert (await one(client, TOPIC, "t", "retention.ms")).config_source == 5
    assert (await one(client, TOPIC, "t", "cleanup.policy")).value == "compact"
    back = ("cleanup.policy", APPEND, "delete"), ("segment.ms", DELETE, None)
    assert (await change(client, TOPIC, "t", *back)).error_code == 0
    assert (await one(client, TOPIC, "t", "cleanup.policy")).value == "compact,delete"
    response = await change(client, TOPIC, "t", ("preallocate", SET, "true"))
    assert response.error_code == ErrorCode.INVALID_CONFIG  # not built


@on_broker({"log.roll.ms": "30"}, both=False)
async def test_layers_of_a_broker(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for name, text in (("", "20"), ("0", "10")):
        assert (await change(client, BROKER, name, ("log.roll.ms", SET, text))).error_code == 0
    found = await one(client, BROKER, "0", "log.roll.ms")
    assert (found.value, found.config_source, found.is_default) == ("10", 2, False)
    layers = [("10", 2), ("20", 3), ("30", 4)]
    assert [(s.value, s.source) for s in found.synonyms] == layers
    found = await one(client, BROKER, "", "log.roll.ms")
    assert (found.value, found.config_source) == ("20", 3)
    assert [(s.value, s.source) for s in found.synonyms] == [("20", 3)]
    found = await one(client, TOPIC, "t", "segment.ms")
    assert (found.value, found.config_source) == ("10", 2)
    assert [(s.value, s.source) for s in found.synonyms] == [*layers, ("168", 5)]
    for name, then in (("0", ("20", 3)), ("", ("30", 4))):
        assert (await change(client, BROKER, name, ("log.roll.ms", DELETE, ""))).error_code == 0
        found = await one(client, BROKER, "0", "log.roll.ms")
        assert (found.value, found.config_source) == then


@on_broker(both=False)
async def test_loggers(broker: RunningBroker) -> None:
    client = await broker.client()
    name = "odradek.broker.administration.topics"
    before = logger_levels()[name]
    assert (await change(client, BROKER_LOGGER, "0", (name, SET, "TRACE"))).error_code == 0
    assert logging.getLogger(name).isEnabledFor(logging.DEBUG)
    found = await one(client, BROKER_LOGGER, "0", name)
    assert (found.value, found.config_source, found.config_type) == ("TRACE", 6, 0)
    checked = await change(client, BROKER_LOGGER, "0", (name, DELETE, None), validate_only=True)
    assert checked.error_code == 0
    assert logger_levels()[name] == "TRACE"
    assert (await change(client, BROKER_LOGGER, "0", (name, DELETE, None))).error_code == 0
    assert logger_levels()[name] == before
    good, bad = (name, SET, "ERROR"), ("odradek.absent", SET, "INFO")
    assert (await change(client, BROKER_LOGGER, "0", good, bad)).error_code == 40
    assert logger_levels()[name] == before


def test_levels_end_with_the_broker(tmp_path: Path) -> None:
    before = logger_levels()

    @on_broker(both=False)
    async def run(broker: RunningBroker) -> None:
        client = await broker.client()
        await change(client, BROKER_LOGGER, "0", ("odradek", SET, "FATAL"))
        assert logger_levels()["odradek"] == "FATAL"

    run(tmp_path=tmp_path)
    assert logger_levels()["odradek"] == before["odradek"]


@on_broker(both=False)
async def test_groups(broker: RunningBroker) -> None:
    client = await broker.client()
    for group in ("g", "a/b", "..", ".", "<default>", "%", "grüppe", " "):
        await check_group(broker, client, group)


async def check_group(broker: RunningBroker, client: Client, group: str) -> None:
    key = "consumer.session.timeout.ms"
    found = await one(client, GROUP, group, key)
    assert (found.value, found.config_source, found.read_only) == ("45000", 5, False)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [(f"group.{key}", "45000", 5)]
    assert (await change(client, GROUP, group, (key, SET, "50000"))).error_code == 0
    found = await one(client, GROUP, group, key)
    assert (found.value, found.config_source) == ("50000", 8)
    assert [(s.value, s.source) for s in found.synonyms] == [("50000", 8), ("45000", 5)]
    assert broker.node.dynamic_configs.group_overrides(group) == {key: "50000"}
    assert (await change(client, GROUP, group, (key, DELETE, None))).error_code == 0
    assert broker.node.dynamic_configs.group_overrides(group) == {}


@on_broker(both=False)
async def test_refusals(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    invalid, config = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
    cases: list[tuple[int, str, Change, ErrorCode]] = [
        (TOPIC, "t", ("segment.ms", SET, None), invalid),
        (TOPIC, "t", ("segment.ms", 4, "1"), invalid),
        (TOPIC, "t", ("segment.ms", APPEND, "1"), config),
        (TOPIC, "t", ("nope", SET, "1"), config),
        (TOPIC, "absent", ("segment.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("segment.ms", SET, "1"), invalid),
        (BROKER, "0", ("num.partitions", SET, "1"), invalid),
        (BROKER, "", ("listeners", SET, "PLAINTEXT://:0"), invalid),
        (BROKER, "1", ("log.roll.ms", SET, "1"), invalid),
        (BROKER, "x", ("log.roll.ms", SET, "1"), invalid),
        (BROKER_LOGGER, "1", ("odradek", SET, "INFO"), invalid),
        (BROKER_LOGGER, "", ("odradek", SET, "INFO"), invalid),
        (BROKER_LOGGER, "0", ("odradek", APPEND, "INFO"), invalid),
        (BROKER_LOGGER, "0", ("odradek", SET, "LOUD"), config),
        (BROKER_LOGGER, "0", ("root", SET, "INFO"), config),
        (CLIENT_METRICS, "c", ("interval.ms", SET, "1"), invalid),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), invalid),
        (GROUP, "g", ("consumer.session.timeout.ms", APPEND, "50000"), config),
        (3, "t", ("segment.ms", SET, "1"), invalid),
    ]
    for kind, name, asked, code in cases:
        assert (await change(client, kind, name, asked)).error_code == code, (kind, name, asked)
    for key in ("nope", "segment.ms"):
        assert (await change(client, TOPIC, "t", (key, DELETE, None))).error_code == 0
    assert (await change(client, BROKER, "00", ("log.roll.ms", SET, "1"))).error_code == 0
    assert (await change(client, TOPIC, "t")).error_code == 0


@on_broker(both=False)
async def test_each_resource_gets_its_own_answer(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    request = change_configs(TOPIC, "t", ("segment.ms", SET, "5"))
    request.resources += change_configs(TOPIC, "absent", ("segment.ms", SET, "5")).resources
    responses = (await client.ask(request, 1)).responses
    assert [response.error_code for response in responses] == [0, 3]
    request.resources += change_configs(TOPIC, "t", ("segment.ms", SET, "6")).resources
    responses = (await client.ask(request, 0)).responses
    assert [response.error_code for response in responses] == [42, 3, 42]
    assert (await one(client, TOPIC, "t", "segment.ms")).value == "5"
