"""Configs as operators change them: kafka-configs of both versions, and the admin clients."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from kafka.admin import AlterConfigOp, KafkaAdminClient
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType as PythonType

from tests.kafka.java import Ended, ToolRunner
from tests.support.brokers import NewTopicName, StartServer
from tests.wire.clients import librdkafka
from tests.wire.servers import Server

Configs = Callable[..., Ended]


@pytest.fixture
def broker(start_server: StartServer) -> Server:
    """A broker whose configs one may change."""
    return start_server()


def configs(server: Server, tools: ToolRunner, *arguments: str, check: bool = True) -> Ended:
    address = ("--bootstrap-server", server.bootstrap_servers)
    return tools.run("ConfigCommand", *address, *arguments, check=check)


def alter(
    server: Server, tools: ToolRunner, entity: tuple[str, ...], *changes: str, check: bool = True
) -> str:
    ended = configs(server, tools, "--alter", *entity, *changes, check=check)
    assert (ended.exit_code == 0) == check
    return ended.stdout + ended.stderr


def described(
    server: Server, tools: ToolRunner, entity: tuple[str, ...], *more: str
) -> dict[str, str]:
    """The lines of what is set, by name."""
    text = configs(server, tools, "--describe", *entity, *more).stdout
    found = re.findall(r"^  ([a-z0-9._]+)=(.*)$", text, re.MULTILINE | re.IGNORECASE)
    return dict(found)


@pytest.mark.java
def test_a_topic(server: Server, new_topic: NewTopicName, tools: ToolRunner) -> None:
    name = new_topic("configured")
    topic = ("--entity-type", "topics", "--entity-name", name)
    change = "segment.bytes=1048576,max.message.bytes=2000"
    assert "Completed updating config for topic" in alter(
        server, tools, topic, "--add-config", change
    )
    own = described(server, tools, topic)
    assert set(own) == {"segment.bytes", "max.message.bytes"}
    assert own["segment.bytes"].startswith("1048576 sensitive=false")
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576" in own["segment.bytes"]
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in own["segment.bytes"]
    both = ("--add-config", "segment.ms=60000", "--delete-config", "segment.bytes")
    alter(server, tools, topic, *both)
    assert set(described(server, tools, topic)) == {"segment.ms", "max.message.bytes"}
    everything = described(server, tools, topic, "--all")
    assert len(everything) > 25
    assert everything["segment.bytes"].startswith("1073741824 ")
    for refused in ("nope=1", "segment.ms=never"):
        text = alter(server, tools, topic, "--add-config", refused, check=False)
        assert "InvalidConfigurationException" in text
    gone = ("--entity-type", "topics", "--entity-name", f"{name}-absent")
    text = alter(server, tools, gone, "--add-config", "segment.ms=1", check=False)
    assert "UnknownTopicOrPartitionException" in text


@pytest.mark.java
def test_a_broker_and_all_brokers(broker: Server, tools: ToolRunner) -> None:
    one = ("--entity-type", "brokers", "--entity-name", broker_id(broker))
    all_ = ("--entity-type", "brokers", "--entity-default")
    alter(broker, tools, all_, "--add-config", "log.roll.ms=200000,message.max.bytes=2000000")
    alter(broker, tools, one, "--add-config", "log.roll.ms=100000")
    assert set(described(broker, tools, all_)) == {"log.roll.ms", "message.max.bytes"}
    own = described(broker, tools, one)
    assert own["log.roll.ms"].startswith("100000 ")
    layers = "{DYNAMIC_BROKER_CONFIG:log.roll.ms=100000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.roll.ms"
    assert layers in own["log.roll.ms"]
    everything = described(broker, tools, one, "--all")
    assert len(everything) > 200
    assert everything["message.max.bytes"].startswith("2000000 ")
    for entity in (one, all_):
        text = alter(broker, tools, entity, "--add-config", "num.partitions=3", check=False)
        assert "InvalidRequestException" in text
        alter(broker, tools, entity, "--delete-config", "log.roll.ms")
    assert set(described(broker, tools, all_)) == {"message.max.bytes"}


@pytest.mark.java
def test_loggers(broker: Server, odradek_only: None, tools: ToolRunner) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", broker_id(broker))
    name = "odradek.broker.administration.topics"
    before = described(broker, tools, loggers)[name]
    alter(broker, tools, loggers, "--add-config", f"{name}=DEBUG")
    assert described(broker, tools, loggers)[name].startswith("DEBUG ")
    alter(broker, tools, loggers, "--delete-config", name)
    assert described(broker, tools, loggers)[name] == before


@pytest.mark.java
def test_a_group(broker: Server, odradek_only: None, runners: Mapping[str, ToolRunner]) -> None:
    tools = runners["4.3.1"]
    group = ("--entity-type", "groups", "--entity-name", "mine")
    alter(broker, tools, group, "--add-config", "consumer.session.timeout.ms=50000")
    own = described(broker, tools, group)
    assert own["consumer.session.timeout.ms"].startswith("50000 ")
    text = alter(broker, tools, group, "--add-config", "consumer.session.timeout.ms=1", check=False)
    assert "InvalidConfigurationException" in text
    alter(broker, tools, group, "--delete-config", "consumer.session.timeout.ms")


def broker_id(server: Server) -> str:
    (found,) = AdminClient(librdkafka(server.bootstrap_servers)).list_topics(timeout=30).brokers
    return str(found)


# librdkafka.


def entry(name: str, value: str | None, operation: AlterConfigOpType) -> ConfigEntry:
    return ConfigEntry(
        name, value, source=ConfigSource.UNKNOWN_CONFIG, incremental_operation=operation
    )


def confluent_outcome(future: Any) -> int:
    try:
        future.result(timeout=30)
    except KafkaException as refused:
        code: int = refused.args[0].code()
        return code
    return 0


def value_of(admin: AdminClient, kind: ResourceType, name: str, key: str) -> tuple[str, int]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    found = future.result(timeout=30)[key]
    return found.value, found.source


SET: Final = AlterConfigOpType.SET
DELETE: Final = AlterConfigOpType.DELETE


def test_librdkafka_changes_a_topic(admin: AdminClient, new_topic: NewTopicName) -> None:
    name = new_topic("rd")

    def change(*entries: ConfigEntry, **more: bool) -> int:
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(entries))
        (future,) = admin.incremental_alter_configs([resource], **more).values()
        return confluent_outcome(future)

    key = "segment.ms"
    assert change(entry(key, "70000", SET), validate_only=True) == 0
    assert value_of(admin, ResourceType.TOPIC, name, key)[1] == 5
    assert change(entry(key, "70000", SET)) == 0
    assert value_of(admin, ResourceType.TOPIC, name, key) == ("70000", 1)
    assert change(entry(key, "x", SET)) == KafkaError.INVALID_CONFIG
    assert change(entry(key, "1", AlterConfigOpType.APPEND)) == KafkaError.INVALID_CONFIG
    assert change(entry(key, None, DELETE)) == 0
    assert value_of(admin, ResourceType.TOPIC, name, key)[1] == 5
    whole = ConfigResource(ResourceType.TOPIC, name, set_config={"segment.bytes": "1048576"})
    with pytest.warns(DeprecationWarning):
        (future,) = admin.alter_configs([whole]).values()
    assert confluent_outcome(future) == 0
    assert value_of(admin, ResourceType.TOPIC, name, "segment.bytes") == ("1048576", 1)


def test_librdkafka_changes_the_broker(broker: Server) -> None:
    admin = AdminClient(librdkafka(broker.bootstrap_servers))
    name = broker_id(broker)

    def change(key: str, value: str) -> int:
        resource = ConfigResource(
            ResourceType.BROKER, name, incremental_configs=[entry(key, value, SET)]
        )
        (future,) = admin.incremental_alter_configs([resource]).values()
        return confluent_outcome(future)

    assert change("message.max.bytes", "2000") == 0
    assert value_of(admin, ResourceType.BROKER, name, "message.max.bytes") == ("2000", 2)
    assert change("num.partitions", "2") == KafkaError.INVALID_REQUEST
    assert change("log.segment.bytes", "1") == KafkaError.INVALID_REQUEST


def test_a_change_of_the_broker_survives_kill(broker: Server, odradek_only: None) -> None:
    admin = AdminClient(librdkafka(broker.bootstrap_servers))
    change = [entry("log.roll.ms", "77000", SET)]
    name = broker_id(broker)
    resource = ConfigResource(ResourceType.BROKER, name, incremental_configs=change)
    (future,) = admin.incremental_alter_configs([resource]).values()
    assert confluent_outcome(future) == 0
    broker.kill()
    broker.start()
    admin = AdminClient(librdkafka(broker.bootstrap_servers))
    assert value_of(admin, ResourceType.BROKER, name, "log.roll.ms") == ("77000", 2)


# kafka-python.


def test_kafka_python_changes_a_topic(server: Server, new_topic: NewTopicName) -> None:
    name = new_topic("py")
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    try:
        for incremental in (True, False):
            text = "80000" if incremental else "90000"
            resource = PythonResource(PythonType.TOPIC, name, configs={"segment.ms": text})
            admin.alter_configs([resource], incremental=incremental)
            shown = admin.describe_configs([PythonResource(PythonType.TOPIC, name)])
            assert text in str(shown)
        change = {"segment.ms": (AlterConfigOp.DELETE, None)}
        admin.alter_configs([PythonResource(PythonType.TOPIC, name, configs=change)])
        bad = PythonResource(PythonType.TOPIC, name, configs={"segment.ms": "never"})
        results = admin.alter_configs([bad], raise_on_unknown=False)
        assert "INVALID_CONFIG" in str(results) or "InvalidConfiguration" in str(results)
    finally:
        admin.close()
