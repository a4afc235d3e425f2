"""Records that are deleted stay so, whatever happens to the broker.

Apache Kafka writes down where logs start once a minute; what was answered since is lost in a crash.
"""

from collections.abc import Sequence

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.support.brokers import StartServer, create_topic
from tests.wire.clients import librdkafka
from tests.wire.servers import Server

TOPIC = "cut"
COUNT = 10


def produce(server: Server, values: Sequence[str]) -> None:
    producer = Producer(librdkafka(server.bootstrap_servers))
    for value in values:
        producer.produce(TOPIC, value=value)
    assert producer.flush(30) == 0


def delete_before(server: Server, offset: int) -> int:
    """The low watermark afterwards."""
    admin = AdminClient(librdkafka(server.bootstrap_servers))
    wanted = TopicPartition(TOPIC, 0, offset)
    low_watermark: int = admin.delete_records([wanted])[wanted].result(30).low_watermark
    return low_watermark


def bounds(server: Server) -> tuple[int, int]:
    """Where ListOffsets says that the log starts and ends."""
    consumer = Consumer(librdkafka(server.bootstrap_servers, **{"group.id": "nobody"}))
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
        return low, high
    finally:
        consumer.close()


def read(server: Server, offset: int, count: int) -> list[str]:
    """Values from `offset` on.  Raises: KafkaException where the broker does."""
    settings: dict[str, str | bool] = {
        "group.id": "nobody",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
    }
    consumer = Consumer(librdkafka(server.bootstrap_servers, **settings))
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        values = []
        for message in consumer.consume(count, timeout=30):
            if message.error():
                raise KafkaException(message.error())
            values.append((message.value() or b"").decode())
        return values
    finally:
        consumer.close()


def check(server: Server, low: int, values: Sequence[str]) -> None:
    assert bounds(server) == (low, COUNT)
    assert read(server, OFFSET_BEGINNING, COUNT - low) == values[low:]
    try:
        read(server, low - 1, 1)
    except KafkaException as refused:
        assert refused.args[0].code() in (
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
        )
    else:
        raise AssertionError("a deleted record was read")


@pytest.mark.usefixtures("odradek_only")
def test_deleted_records_stay_deleted(start_server: StartServer) -> None:
    server = start_server()
    values = [f"value {n}" for n in range(COUNT)]
    create_topic(server.bootstrap_servers, TOPIC)
    produce(server, values)
    assert delete_before(server, 4) == 4
    server.kill()
    server.start()
    check(server, 4, values)
    assert delete_before(server, 7) == 7
    server.stop()
    server.start()
    check(server, 7, values)
