"""Transactions with the clients that applications have: what commits, aborts, fences, times out."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.brokers import NewTopicName, SharedServer, UniqueName, topics_on
from tests.support.waiting import until
from tests.wire.clients import librdkafka
from tests.wire.servers import Server
from tests.wire.transactional import (
    PRODUCERS,
    READERS,
    TIMEOUT_MS,
    Java,
    JavaFailed,
    Transactional,
)

# Timed-out transactions are looked for more often than every ten seconds.
SETTINGS: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
SHORTEST_MS: Final = 1_000  # that librdkafka takes
CLIENTS: Final = [
    *PRODUCERS,
    pytest.param("java-3.9.2", marks=pytest.mark.java),
    pytest.param("java-4.3.1", marks=[pytest.mark.java, pytest.mark.soak]),
]
LAST: Final = "last"
COMMITTED: Final = "read_committed"
UNCOMMITTED: Final = "read_uncommitted"
FENCED: Final = (
    confluent_kafka.KafkaException,
    kafka.errors.ProducerFencedError,
    aiokafka.errors.ProducerFenced,
    JavaFailed,
)
Open = Callable[..., Transactional]
ReadAll = Callable[[str, str], list[str]]


@pytest.fixture(scope="module", params=["0", pytest.param("2", marks=pytest.mark.soak)])
def version(request: pytest.FixtureRequest) -> str:
    """Of transactions, that the broker has."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server(shared_server: SharedServer, version: str) -> Server:
    return shared_server({**SETTINGS, "odradek.transaction.version": version})


@pytest.fixture(scope="module")
def admin(server: Server) -> AdminClient:
    return AdminClient(librdkafka(server.bootstrap_servers))


@pytest.fixture(scope="module")
def new_topic(server: Server, unique_name: UniqueName) -> NewTopicName:
    return topics_on(server, unique_name)


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def java(client: str, server: Server) -> Iterator[Java | None]:
    """A JVM for this client, if it is one of Java's."""
    with ExitStack() as stack:
        name, _, version = client.partition("-")
        is_java = name == "java"
        yield stack.enter_context(Java(version, server.bootstrap_servers)) if is_java else None


@pytest.fixture
def open_producer(server: Server, client: str, java: Java | None) -> Iterator[Open]:
    """A function that opens a producer of this client, which is closed in the end."""
    with ExitStack() as stack:

        def start(transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> Transactional:
            new = java.open if java else PRODUCERS[client]
            producer = new(server.bootstrap_servers, transactional_id, timeout_ms)
            stack.callback(producer.close)
            return producer

        yield start


@pytest.fixture
def read_all(server: Server, client: str, java: Java | None) -> ReadAll:
    """A function from a topic and an isolation level to what this client reads, up to `LAST`."""
    read = java.read if java else READERS[client]
    return lambda topic, level: read(server.bootstrap_servers, topic, level, LAST)


def send_last(server: Server, topic: str) -> None:
    producer = confluent_kafka.Producer(librdkafka(server.bootstrap_servers))
    producer.produce(topic, LAST, partition=0)
    assert producer.flush(30) == 0


def test_readers_see_what_was_committed(
    server: Server, new_topic: NewTopicName, open_producer: Open, read_all: ReadAll
) -> None:
    topic = new_topic("mixed")
    producer = open_producer(f"{topic}-a")
    other = open_producer(f"{topic}-b")
    other.begin()
    other.send(topic, "other-0")
    for number in range(6):
        producer.begin()
        producer.send(topic, f"{number}-0")
        producer.send(topic, f"{number}-1")
        (producer.abort if number % 3 == 1 else producer.commit)()
    other.send(topic, "other-1")
    other.commit()
    send_last(server, topic)
    everything = [f"{n}-{m}" for n in range(6) for m in range(2)]
    committed = [value for value in everything if value[0] not in "14"]
    assert read_all(topic, UNCOMMITTED) == ["other-0", *everything, "other-1", LAST]
    assert read_all(topic, COMMITTED) == ["other-0", *committed, "other-1", LAST]


def offset_of(admin: AdminClient, group_id: str, topic: str) -> int:
    """What is committed; while a transaction that commits more is under way, it is asked again."""
    asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0)])
    stable: list[int] = []

    def is_stable() -> bool:
        answer = admin.list_consumer_group_offsets([asked], require_stable=True)[group_id]
        (partition,) = answer.result(30).topic_partitions
        stable[:] = [] if partition.error else [partition.offset]
        return bool(stable)

    until(is_stable)
    return stable[0]


def test_offsets_are_committed_with_the_transaction(
    admin: AdminClient, new_topic: NewTopicName, open_producer: Open
) -> None:
    topic = new_topic("offsets")
    producer, group_id = open_producer(topic), f"{topic}-group"
    for offset, is_committed in ((3, True), (5, False), (7, True), (9, False)):
        producer.begin()
        producer.send(topic, str(offset))
        producer.send_offset(group_id, topic, offset)
        (producer.commit if is_committed else producer.abort)()
        expected = offset if is_committed else offset - 2
        assert offset_of(admin, group_id, topic) == expected


def test_fenced_by_a_second_producer_and_by_time(
    server: Server,
    new_topic: NewTopicName,
    open_producer: Open,
    read_all: ReadAll,
    client: str,
    version: str,
) -> None:
    topic, late_topic = new_topic("fenced"), new_topic("late")
    late = open_producer(late_topic, SHORTEST_MS)
    late.begin()
    late.send(late_topic, "late")
    first = open_producer(topic)
    first.begin()
    first.send(topic, "first")
    second = open_producer(topic)
    second.begin()
    second.send(topic, "second")
    assert_fenced(first.commit)
    second.commit()
    send_last(server, topic)
    assert read_all(topic, UNCOMMITTED) == ["first", "second", LAST]
    assert read_all(topic, COMMITTED) == ["second", LAST]
    send_last(server, late_topic)  # readers of committed records get it once `late` was aborted
    assert read_all(late_topic, COMMITTED) == [LAST]
    speaks_2 = client == "java-4.3.1" and version == "2"
    # With version 2 it is taken for one that commits again, because the answer was lost.
    assert_fenced(
        late.commit, "InvalidTxnStateException" if speaks_2 else "ProducerFencedException"
    )


def assert_fenced(commit: Callable[[], None], in_java: str = "ProducerFencedException") -> None:
    """Expect what the client says to a producer that was fenced."""
    with pytest.raises(FENCED) as raised:
        commit()
    error = raised.value
    if isinstance(error, confluent_kafka.KafkaException):
        assert error.args[0].code() == KafkaError._FENCED
        assert error.args[0].fatal()
    if isinstance(error, JavaFailed):
        assert str(error) == in_java
