"""Real clients and brokers that serve no more than a release of Kafka did (`like=`)."""

import asyncio
from collections.abc import Callable, Iterator

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, Producer

from odradek.testing import Broker, BrokerFailed
from tests.kafka.java import run_tool

pytestmark = [pytest.mark.wire, pytest.mark.slow]

SETTING = "odradek.compatibility"
EARLIEST = {"auto.offset.reset": "earliest", "group.id": "g"}


def with_confluent(broker: Broker) -> bytes | None:
    config = broker.client_config("confluent")
    producer = Producer({**config, "enable.idempotence": True})
    producer.produce("t", b"v")
    assert producer.flush(30) == 0
    consumer = Consumer({**config, **EARLIEST})
    consumer.subscribe(["t"])
    message = consumer.poll(30)
    assert message is not None
    value: bytes | None = message.value()
    consumer.commit(asynchronous=False)
    consumer.close()
    return value


def with_kafka_python(broker: Broker) -> bytes | None:
    config = broker.client_config("kafka-python")
    producer = kafka.KafkaProducer(**config)
    producer.send("t", b"v").get(30)
    producer.close()
    consumer = kafka.KafkaConsumer("t", **config, group_id="g", auto_offset_reset="earliest")
    value: bytes | None = next(iter(consumer)).value
    consumer.commit()
    consumer.close()
    return value


def with_aiokafka(broker: Broker) -> bytes | None:
    config = broker.client_config("aiokafka")

    async def main() -> bytes | None:
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("t", b"v")
        reading = {"group_id": "g", "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer("t", **config, **reading) as consumer:
            value: bytes | None = (await asyncio.wait_for(consumer.getone(), 30)).value
            await consumer.commit()
        return value

    return asyncio.run(main())


def with_java(version: str) -> Callable[[Broker], bytes | None]:
    def write_and_read(broker: Broker) -> bytes | None:
        where = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "t")
        run_tool(version, "ConsoleProducer", *where, stdin=b"v\n")
        reading = (*where, "--from-beginning", "--group", "g", "--max-messages", "1")
        read = run_tool(version, "ConsoleConsumer", *reading, "--timeout-ms", "30000")
        return read.stdout.strip().encode()

    return write_and_read


def like(release: str) -> Broker:
    return Broker(settings={SETTING: release}, in_process=True)


def check(release: str, client: Callable[[Broker], bytes | None]) -> None:
    with like(release) as broker:
        broker.topics.create("t")
        assert client(broker) == b"v"
        assert broker.groups["g"].offsets == {("t", 0): 1}


PYTHON = [with_confluent, with_kafka_python, with_aiokafka]


@pytest.mark.parametrize("client", PYTHON)
def test_a_client_goes_back_to_what_an_old_release_had(
    client: Callable[[Broker], bytes | None],
) -> None:
    with like("0.11") as broker:
        broker.topics.create("t")
        assert client(broker) == b"v"
        assert broker.groups["g"].offsets == {("t", 0): 1}
        newest = {
            api: max(request.version for request in broker.journal.requests(api=api))
            for api in ("Produce", "Fetch", "JoinGroup")
        }
    assert newest == {"Produce": 3, "Fetch": 5, "JoinGroup": 2}


@pytest.mark.parametrize("client", PYTHON)
def test_a_client_goes_without_what_kafka_4_has_removed(
    client: Callable[[Broker], bytes | None],
) -> None:
    check("4.0", client)


RELEASES = ("0.11", "1.1", "2.1", "2.8", "3.3", "4.0", "4.3")


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_java_clients(version: str, release: str) -> None:
    check(release, with_java(version))


@pytest.mark.soak
@pytest.mark.parametrize("client", PYTHON)
@pytest.mark.parametrize("release", ["1.0", "1.1", "2.0", "2.3", "2.8", "3.3", "3.9", "4.3"])
def test_python_clients(release: str, client: Callable[[Broker], bytes | None]) -> None:
    check(release, client)


@pytest.fixture(scope="module")
def three() -> Iterator[Broker]:
    with Broker(brokers=3, settings={SETTING: "1.1"}, in_process=True) as started:
        yield started


def test_brokers_replicate_among_themselves_by_newer_versions(three: Broker) -> None:
    three.topics.create("t", replication_factor=3, configs={"min.insync.replicas": 3})
    assert with_confluent(three) == b"v"
    follower = next(each for each in three.broker_ids if each != three.leader("t"))
    three.stop(follower)
    three.start(follower)
    assert follower in three.topics["t"].partitions[0].isr
    three.reset()
    assert len(three.topics) == 0


def test_users_log_in_and_have_rights_in_old_releases() -> None:
    settings = {SETTING: "2.7"}
    acls = ["User:alice all topic:t", "User:alice read group:g"]
    with Broker(settings=settings, sasl="SCRAM-SHA-256", acls=acls, in_process=True) as broker:
        broker.topics.create("t")
        alice = Producer(broker.client_config("confluent", user="alice"))
        alice.produce("t", b"v")
        assert alice.flush(30) == 0


def test_an_unknown_release_is_refused_in_a_sentence() -> None:
    with pytest.raises(BrokerFailed, match=r"odradek.compatibility=2.9 is not allowed: .* 0.11, "):
        like("2.9").start()


@pytest.mark.odradek(like="2.3")
def test_the_marker(odradek: Broker) -> None:
    odradek.topics.create("t")
    assert with_aiokafka(odradek) == b"v"
    assert max(r.version for r in odradek.journal.requests(api="Produce")) == 7
