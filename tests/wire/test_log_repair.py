"""`odradek log` on the directory of a real Apache Kafka 3.9.2, which then goes on with it."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.log_files import flip, run
from tests.kafka.apache import apache_kafka
from tests.support.brokers import create_topic
from tests.wire.clients import librdkafka

pytestmark = pytest.mark.java

COUNT = 400
SETTINGS = {"log.segment.bytes": "16384", "log.index.interval.bytes": "500"}


def values(bootstrap_servers: str, topic: str) -> dict[int, bytes | None]:
    """Offset -> value of all that is there."""
    consumer = Consumer(librdkafka(bootstrap_servers, **{"group.id": "none"}))
    deadline = time.monotonic() + 60
    while topic not in consumer.list_topics(timeout=30).topics and time.monotonic() < deadline:
        pass  # a broker that has just started is told of its topics a little later
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, first)])
    found: dict[int, bytes | None] = {}
    while end - 1 not in found and time.monotonic() < deadline:
        for message in consumer.consume(100, timeout=0.2):
            assert message.error() is None, message.error()
            offset = message.offset()
            assert offset is not None
            found[offset] = message.value()
    consumer.close()
    return found


def test_kafka_goes_on_with_what_was_repaired(tmp_path: Path) -> None:
    with apache_kafka("3.9.2", directory=tmp_path, settings=SETTINGS) as kafka:
        create_topic(kafka.bootstrap_servers, "t")
        # Flushed at once, and never before: ten records are a batch.
        settings = {"enable.idempotence": True, "linger.ms": 10_000}
        producer = Producer(librdkafka(kafka.bootstrap_servers, **settings))
        for n in range(COUNT):
            producer.produce("t", b"%d " % n * 40, partition=0)
            if n % 10 == 9:
                producer.flush()
        del producer
        data = kafka.data_dir

        refused = run("verify", data)
        assert refused.exit_code == 2 and "a broker is running on" in refused.output
        looked = run("verify", data, "--while-running", "--deep")
        assert looked.exit_code == 0, looked.output

        kafka.kill()
        after_kill = run("verify", data, "--deep")
        assert after_kill.exit_code == 0, after_kill.output
        assert "zeros are behind its entries" in after_kill.output  # preallocated indexes

        segment = sorted((data / "t-0").glob("*.log"))[1]
        flip(segment, segment.stat().st_size // 2)
        assert run("verify", data).exit_code == 1
        repaired = run("repair", data, "--apply")
        assert repaired.exit_code == 0, repaired.output
        assert run("verify", data, "--deep").exit_code == 0

        kafka.start()
        after = values(kafka.bootstrap_servers, "t")
        assert len(after) == COUNT - 10
        assert all(value == b"%d " % offset * 40 for offset, value in after.items())
        kafka.stop()
        assert "nothing found" not in run("verify", data).output  # what was set aside is named
        assert run("verify", data, "--deep").exit_code == 0
