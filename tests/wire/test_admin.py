"""Topics and configurations through the admin clients: what is granted and how it is refused."""

import re
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from kafka import KafkaConsumer

from tests.support.brokers import NewTopicName, StartServer, UniqueName
from tests.support.waiting import until
from tests.wire.servers import Server

# Their stubs say `Any` or nothing here; what a future holds is asserted on below.
Futures = dict[Any, Any]


def outcome(futures: Futures) -> tuple[int, str]:
    """The error code and text of the one future, (0, "") if it was granted."""
    (future,) = futures.values()
    try:
        future.result(timeout=30)
    except KafkaException as refused:
        error: KafkaError = refused.args[0]
        return error.code(), error.str()
    return 0, ""


def create(admin: AdminClient, name: str, **arguments: Any) -> tuple[int, str]:
    validate_only = arguments.pop("validate_only", False)
    return outcome(admin.create_topics([NewTopic(name, **arguments)], validate_only=validate_only))


def test_existing_topic(admin: AdminClient, new_topic: NewTopicName) -> None:
    name = new_topic("exists")
    code, text = create(admin, name, num_partitions=1)
    assert code == KafkaError.TOPIC_ALREADY_EXISTS
    assert name in text


BAD_NAMES: Final = ["", ".", "..", "with space", "slash/", "ünicode", "x" * 250, "col:on"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names(admin: AdminClient, name: str) -> None:
    code, text = create(admin, name, num_partitions=1)
    assert code == KafkaError.TOPIC_EXCEPTION, text


def test_colliding_names(admin: AdminClient, new_topic: NewTopicName) -> None:
    name = new_topic("a.b")
    code, _ = create(admin, name.replace("a.b", "a_b"), num_partitions=1)
    assert code == KafkaError.TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"num_partitions": 1, "replication_factor": 2}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"num_partitions": 1, "config": {"no.such": "x"}}, KafkaError.INVALID_CONFIG),
        ({"num_partitions": 1, "config": {"retention.ms": "x"}}, KafkaError.INVALID_CONFIG),
        ({"num_partitions": 1, "config": {"cleanup.policy": "x"}}, KafkaError.INVALID_CONFIG),
        # The same broker twice
        (
            {"num_partitions": 1, "replica_assignment": [[0, 0]]},
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=["partitions", "factor", "unknown-config", "bad-config", "bad-policy", "assignment"],
)
def test_refused_creations(
    admin: AdminClient, unique_name: UniqueName, arguments: dict[str, Any], expected: int
) -> None:
    code, text = create(admin, unique_name("refused"), **arguments)
    assert code == expected, text


def test_validate_only_creates_nothing(admin: AdminClient, unique_name: UniqueName) -> None:
    name = unique_name("validated")
    assert create(admin, name, num_partitions=1, validate_only=True) == (0, "")
    assert name not in admin.list_topics(timeout=30).topics
    code, _ = create(admin, name, num_partitions=1, replication_factor=7, validate_only=True)
    assert code == KafkaError.INVALID_REPLICATION_FACTOR


def test_one_bad_topic_of_a_request_does_not_stop_the_others(
    admin: AdminClient, new_topic: NewTopicName, unique_name: UniqueName
) -> None:
    names = [unique_name("first"), new_topic("there"), unique_name("last")]
    futures = admin.create_topics([NewTopic(name, num_partitions=1) for name in names])
    codes = [outcome({name: futures[name]})[0] for name in names]
    assert codes == [0, KafkaError.TOPIC_ALREADY_EXISTS, 0]


def test_delete(admin: AdminClient, new_topic: NewTopicName, unique_name: UniqueName) -> None:
    name = new_topic("deleted")
    assert outcome(admin.delete_topics([name])) == (0, "")
    until(lambda: name not in admin.list_topics(timeout=30).topics)
    code, _ = outcome(admin.delete_topics([unique_name("never")]))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_made_again_has_another_id(
    server: Server, admin: AdminClient, new_topic: NewTopicName
) -> None:
    name = new_topic("again", partitions=2)
    first = topic_id(admin, name)
    assert outcome(admin.delete_topics([name])) == (0, "")
    # Kafka answers before the deletion is done; until then the name is taken.
    until(lambda: create(admin, name, num_partitions=1) == (0, ""))
    until(lambda: is_described(admin, name))
    assert topic_id(admin, name) != first
    assert len(describe(admin, name).partitions) == 1


def describe(admin: AdminClient, name: str) -> Any:
    return admin.describe_topics(TopicCollection([name]))[name].result(timeout=30)


def is_described(admin: AdminClient, name: str) -> bool:
    try:
        describe(admin, name)
    except KafkaException as unknown:
        assert unknown.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART, unknown
        return False
    return True


def topic_id(admin: AdminClient, name: str) -> str:
    text = str(describe(admin, name).topic_id)
    assert re.fullmatch(r"[\w+/-]{22}", text), text
    assert text != "AAAAAAAAAAAAAAAAAAAAAA"
    return text


def test_create_partitions(
    admin: AdminClient, new_topic: NewTopicName, unique_name: UniqueName
) -> None:
    name = new_topic("grown", partitions=2)

    def grow(topic: str, count: int, **arguments: Any) -> int:
        return outcome(admin.create_partitions([NewPartitions(topic, count)], **arguments))[0]

    assert grow(name, 5, validate_only=True) == 0
    assert len(describe(admin, name).partitions) == 2
    assert grow(name, 5) == 0
    until(lambda: len(describe(admin, name).partitions) == 5)
    assert grow(name, 5) == KafkaError.INVALID_PARTITIONS
    assert grow(name, 3) == KafkaError.INVALID_PARTITIONS
    assert grow(unique_name("never"), 3) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_topic_configs(admin: AdminClient, new_topic: NewTopicName) -> None:
    name = new_topic("configured", config={"max.message.bytes": "12345"})
    resource = ConfigResource(ResourceType.TOPIC, name)
    entries = admin.describe_configs([resource])[resource].result(timeout=30)
    own = entries["max.message.bytes"]
    assert (own.value, own.is_default, own.is_read_only) == ("12345", False, False)
    assert [s.name for s in own.synonyms.values()][:1] == ["max.message.bytes"]
    default = entries["segment.bytes"]
    assert (default.value, default.is_default) == ("1073741824", True)
    assert {"cleanup.policy", "compression.type", "min.insync.replicas"} <= entries.keys()


def test_describe_broker_configs(admin: AdminClient) -> None:
    (broker,) = admin.list_topics(timeout=30).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    entries = admin.describe_configs([resource])[resource].result(timeout=30)
    assert entries["message.max.bytes"].value == "1048588"
    assert entries["num.partitions"].value == "1"
    assert entries["auto.create.topics.enable"].value == "true"


def test_describe_configs_of_what_is_not_there(admin: AdminClient, unique_name: UniqueName) -> None:
    topic = ConfigResource(ResourceType.TOPIC, unique_name("never"))
    assert outcome(admin.describe_configs([topic]))[0] == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_cluster(server: Server, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(timeout=30)
    assert [(node.host, node.port) for node in described.nodes] == [(server.host, server.port)]
    assert described.controller is not None
    assert described.controller.id == described.nodes[0].id
    assert re.fullmatch(r"[\w-]{22}", described.cluster_id)


def test_no_automatic_topic_where_it_is_switched_off(start_server: StartServer) -> None:
    server = start_server({"auto.create.topics.enable": "false", "num.partitions": "3"})
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap_servers, group_id=None)
    try:
        assert not consumer.partitions_for_topic("nobody-made-this")
    finally:
        consumer.close()
    assert "nobody-made-this" not in admin.list_topics(timeout=30).topics
    # The number of partitions that nobody named is the broker's.
    assert create(admin, "default-count") == (0, "")
    assert len(describe(admin, "default-count").partitions) == 3
