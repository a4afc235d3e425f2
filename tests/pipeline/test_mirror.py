"""Mirror: topics are copied to another cluster, each record once, in order, whatever is killed."""

from pathlib import Path

import pytest
from kafka import KafkaProducer

from odradek.pipeline.kafka import Kafka
from odradek.protocol.records import iter_batches
from odradek.protocol.records.compression import Codec
from tests.pipeline.copies import check_copies, check_copy, fill, wait_for_records
from tests.pipeline.harness import Commands
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName, StartServer
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_topics_are_copied(
    warm_spark: WarmSpark,
    server: Server,
    start_server: StartServer,
    new_topic: NewTopicName,
) -> None:
    other = start_server()
    source, target = server.bootstrap_servers, other.bootstrap_servers
    topics = [
        new_topic("mirrored", partitions=2),
        new_topic("mirrored", config={"segment.bytes": "1234567"}),
    ]
    fill(source, topics[0], 2, 800, seed=1)
    fill(source, topics[1], 3, 500, seed=2)
    command = ["mirror", "--from", source, "--to", target, "--topics", ",".join(topics)]
    command += ["--compression", "gzip", "--once"]
    done = warm_spark.command(*command, "--max-offsets-per-trigger", "600")
    assert (done.code, done.stdout) == (0, "1300 records written\n"), done
    fill(source, topics[0], 2, 100, seed=3)
    assert warm_spark.command(*command).stdout == "100 records written\n"
    assert check_copies(source, topics[0], target) == 900
    assert check_copies(source, topics[1], target) == 500
    kafka = Kafka(target)
    assert [kafka.partitions(topic) for topic in topics] == [2, 3]
    assert kafka.topic_config(topics[1])["segment.bytes"] == "1234567"
    kafka.close()
    assert warm_spark.command(*command).stdout == "0 records written\n"
    assert codecs(other, topics[1]) == {Codec.GZIP}
    sides = ["--against-topic", topics[1], "--against-bootstrap-servers", target]
    audited = warm_spark.command("audit", "-b", source, "--topics", topics[1], *sides)
    assert "broker and copy are equal: 500 records in 3 partitions" in audited.stdout, audited


@pytest.mark.soak  # `make test` kills an archive's job (test_archive_kills.py)
def test_a_killed_mirror_goes_on(
    commands: Commands,
    warm_spark: WarmSpark,
    server: Server,
    start_server: StartServer,
    new_topic: NewTopicName,
    tmp_path: Path,
) -> None:
    other = start_server()
    source, target = server.bootstrap_servers, other.bootstrap_servers
    topic = new_topic("mirrored", partitions=2)
    fill(source, topic, 2, 40_000, seed=1)
    command = ["mirror", "--from", source, "--to", target, "--topics", topic]
    running = commands.start(
        *command, "--max-offsets-per-trigger", "1500", output=tmp_path / "killed.log"
    )
    try:
        wait_for_records(target, topic, 7_000)
    finally:
        running.kill()
    fill(source, topic, 2, 100, seed=3)
    done = warm_spark.command(*command, "--once")
    assert done.code == 0, done
    assert check_copies(source, topic, target) == 40_100


def codecs(server: Server, topic: str) -> set[int]:
    """How the batches in a topic's files are compressed."""
    logs = [log.read_bytes() for log in server.data_dir.glob(f"{topic}-?/*.log")]
    return {header.codec for log in logs for _, header in iter_batches(log)}


def test_records_that_are_unusual_are_kept(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    servers = server.bootstrap_servers
    topic = new_topic("unusual", partitions=1)
    producer = KafkaProducer(bootstrap_servers=servers)
    producer.send(topic, b"v", b"", [("h", b""), ("h", b"2")], 0, 0)
    producer.send(topic, None, b"tombstone", None, 0, 1)
    producer.send(topic, b"x" * 700_000, None, None, 0, 2)
    producer.send(topic, b"\xff\x00", b"\x00\xff", [("odradek.source", b"t/0/1")], 0, 3)
    producer.close()
    raw_records(servers, topic)
    command = ["mirror", "--from", servers, "--to", servers, "--topics", topic, "--once"]
    refused = warm_spark.command(*command)
    assert refused.code == 2
    assert "cannot be copied into themselves" in refused.stderr
    done = warm_spark.command(*command, "--prefix", "copy.")
    assert (done.code, done.stdout) == (0, "6 records written\n"), done
    assert check_copy(servers, topic, f"copy.{topic}") == 6
    # Spark's memory of an earlier run is not the target's.
    remembers = ["--conf", f"spark.sql.streaming.checkpointLocation={tmp_path}"]
    for _ in range(2):
        again = warm_spark.command(*command, "--prefix", "copy.", "--restart", *remembers)
        assert (again.code, again.stdout) == (0, "6 records written\n"), again


def raw_records(servers: str, topic: str) -> None:
    """A record of nulls, and a header without a value, which kafka-python does not send."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, partition=0, timestamp=4)
    producer.produce(topic, b"v", partition=0, timestamp=5, headers=[("null", None), ("a", b"b")])
    assert producer.flush(30) == 0
