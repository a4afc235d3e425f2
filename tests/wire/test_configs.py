"""Configs as operators change them: kafka-configs of both versions, and the admin clients."""

import re
from collections.abc import Callable
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

from tests.kafka.jars import VERSIONS
from tests.kafka.java import Ended, run_tool
from tests.support.brokers import NewTopicName, StartServer
from tests.wire.clients import librdkafka
from tests.wire.servers import Server

each_version = [pytest.mark.java, pytest.mark.parametrize("version", VERSIONS)]


def each_java(test: Callable[..., None]) -> Callable[..., None]:
    for mark in each_version:
        test = mark(test)
    return test


Configs = Callable[..., Ended]


@pytest.fixture
def broker(start_server: StartServer) -> Server:
    """A broker whose configs one may change."""
    return start_server()


def configs(server: Server, version: str, *arguments: str, check: bool = True) -> Ended:
    address = ("--bootstrap-server", server.bootstrap_servers)
    return run_tool(version, "ConfigCommand", *address, *arguments, check=check)


def alter(
    server: Server, version: str, entity: tuple[str, ...], *changes: str, check: bool = True
) -> str:
    ended = configs(server, version, "--alter", *entity, *changes, check=check)
    assert (ended.exit_code == 0) == check
    return ended.stdout + ended.stderr


def described(server: Server, version: str, entity: tuple[str, ...], *more: str) -> dict[str, str]:
    """The lines of what is set, by name."""
    text = configs(server, version, "--describe", *entity, *more).stdout
    found = re.findall(r"^  ([a-z0-9._]+)=(.*)$", text, re.MULTILINE | re.IGNORECASE)
    return dict(found)


@each_java
def test_a_topic(server: Server, new_topic: NewTopicName, version: str) -> None:
    name = new_topic("configured")
    topic = ("--entity-type", "topics", "--entity-name", name)
    change = "segment.bytes=1048576,max.message.bytes=2000"
    assert "Completed updating config for topic" in alter(
        server, version, topic, "--add-config", change
    )
    own = described(server, version, topic)
    assert set(own) == {"segment.bytes", "max.message.bytes"}
    assert own["segment.bytes"].startswith("1048576 sensitive=false")
    assert "DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576" in own["segment.bytes"]
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in own["segment.bytes"]
    both = ("--add-config", "segment.ms=60000", "--delete-config", "segment.bytes")
    alter(server, version, topic, *both)
    assert set(described(server, version, topic)) == {"segment.ms", "max.message.bytes"}
    everything = described(server, version, topic, "--all")
    assert len(everything) > 25
    assert everything["segment.bytes"].startswith("1073741824 ")
    for refused in ("nope=1", "segment.ms=never"):
        text = alter(server, version, topic, "--add-config", refused, check=False)
        assert "InvalidConfigurationException" in text
    gone = ("--entity-type", "topics", "--entity-name", f"{name}-absent")
    text = alter(server, version, gone, "--add-config", "segment.ms=1", check=False)
    assert "UnknownTopicOrPartitionException" in text


@each_java
def test_a_broker_and_all_brokers(broker: Server, version: str) -> None:
    one = ("--entity-type", "brokers", "--entity-name", broker_id(broker))
    all_ = ("--entity-type", "brokers", "--entity-default")
    alter(broker, version, all_, "--add-config", "log.roll.ms=200000,message.max.bytes=2000000")
    alter(broker, version, one, "--add-config", "log.roll.ms=100000")
    assert set(described(broker, version, all_)) == {"log.roll.ms", "message.max.bytes"}
    own = described(broker, version, one)
    assert own["log.roll.ms"].startswith("100000 ")
    layers = "{DYNAMIC_BROKER_CONFIG:log.roll.ms=100000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.roll.ms"
    assert layers in own["log.roll.ms"]
    everything = described(broker, version, one, "--all")
    assert len(everything) > 200
    assert everything["message.max.bytes"].startswith("2000000 ")
    for entity in (one, all_):
        text = alter(broker, version, entity, "--add-config", "num.partitions=3", check=False)
        assert "InvalidRequestException" in text
        alter(broker, version, entity, "--delete-config", "log.roll.ms")
    assert set(described(broker, version, all_)) == {"message.max.bytes"}


@each_java
def test_loggers(broker: Server, odradek_only: None, version: str) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", broker_id(broker))
    name = "odradek.broker.topics"
    before = described(broker, version, loggers)[name]
    alter(broker, version, loggers, "--add-config", f"{name}=DEBUG")
    assert described(broker, version, loggers)[name].startswith("DEBUG ")
    alter(broker, version, loggers, "--delete-config", name)
    assert described(broker, version, loggers)[name] == before


@pytest.mark.java
def test_a_group(broker: Server, odradek_only: None) -> None:
    group = ("--entity-type", "groups", "--entity-name", "mine")
    alter(broker, "4.3.1", group, "--add-config", "consumer.session.timeout.ms=50000")
    own = described(broker, "4.3.1", group)
    assert own["consumer.session.timeout.ms"].startswith("50000 ")
    text = alter(
        broker, "4.3.1", group, "--add-config", "consumer.session.timeout.ms=1", check=False
    )
    assert "InvalidConfigurationException" in text
    alter(broker, "4.3.1", group, "--delete-config", "consumer.session.timeout.ms")


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
