"""Real clients over SASL_SSL with the rights that they need, and not one more."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from odradek.secure.client_files import client_files
from odradek.testing import Broker
from tests.kafka.java import ToolRunner, run_tool

pytestmark = pytest.mark.wire

ACLS = [
    "User:writer write,describe topic:orders",
    "User:writer write,describe transactional-id:writer-*",
    "User:reader read,describe topic:orders",
    "User:reader read group:shop-*",
]
RECORDS = [b"1", b"2", b"3"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(tls=True, sasl="SCRAM-SHA-512", acls=ACLS) as started:
        admin = AdminClient(started.client_config("confluent"))
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        yield started


@pytest.fixture(scope="module", autouse=True)
def written(broker: Broker) -> None:
    """Three records: of a transaction of librdkafka, of one of aiokafka, and of an idempotent
    producer."""

    def transactional() -> None:
        config = broker.client_config("confluent", user="writer")
        producer = Producer({**config, "transactional.id": "writer-1"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"1")
        producer.commit_transaction(30)

    async def of_aiokafka() -> None:
        config = broker.client_config("aiokafka", user="writer")
        async with (
            AIOKafkaProducer(**config, transactional_id="writer-2") as producer,
            producer.transaction(),
        ):
            await producer.send_and_wait("orders", b"2")

    transactional()
    asyncio.run(of_aiokafka())
    idempotent = {"enable.idempotence": True}
    producer = Producer({**broker.client_config("confluent", user="writer"), **idempotent})
    producer.produce("orders", b"3")
    assert producer.flush(30) == 0


def test_a_group_of_librdkafka_reads(broker: Broker) -> None:
    config = broker.client_config("confluent", user="reader")
    reading = {"group.id": "shop-1", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, **reading})
    consumer.subscribe(["orders"])
    found = [consumer.poll(30) for _ in RECORDS]
    consumer.commit(asynchronous=False)
    consumer.close()
    assert [message and message.value() for message in found] == RECORDS


def test_a_group_of_kafka_python_reads(broker: Broker) -> None:
    config = broker.client_config("kafka-python", user="reader")
    consumer = KafkaConsumer(
        "orders", **config, group_id="shop-2", auto_offset_reset="earliest", client_id="r"
    )
    found = [next(consumer).value for _ in RECORDS]
    consumer.commit()
    consumer.close()
    assert found == RECORDS


def test_a_group_of_java_reads_with_its_file(
    broker: Broker, tools: ToolRunner, tmp_path: Path
) -> None:
    option = "--command-config" if tools.version.startswith("4.") else "--consumer.config"
    reader = (option, java_file(broker, "reader", tmp_path))
    server = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "orders")
    group = ("--group", f"shop-{tools.version}", "--from-beginning", "--max-messages", "3")
    read = run_tool(tools.version, "ConsoleConsumer", *server, *group, *reader)
    assert read.stdout.split() == ["1", "2", "3"]


def java_file(broker: Broker, user: str, directory: Path) -> str:
    files = client_files(lambda client: broker.client_config(client, user=user))
    path = directory / f"{user}.properties"
    path.write_text(files["java.properties"])
    return str(path)


def test_rights_end_where_they_are_said_to(broker: Broker) -> None:
    writer = broker.client_config("confluent", user="writer")
    with pytest.raises(KafkaException) as refused:
        Producer({**writer, "transactional.id": "other-1"}).init_transactions(30)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    admin = AdminClient(writer)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("more", 1)])["more"].result(30)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    reader = broker.client_config("confluent", user="reader")
    consumer = Consumer({**reader, "group.id": "office"})
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert set(admin.list_topics(timeout=30).topics) == {"orders"}
