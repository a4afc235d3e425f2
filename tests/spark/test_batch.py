"""Spark's batch sink and source: what one writes, others read, from any offsets and times."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.spark.child import JobFailed
from tests.spark.rows import assert_exactly, assert_gapless, total
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server
from tests.wire.transactional import TIMEOUT_MS, Librdkafka

JOBS = "tests.spark.jobs"
ROW_COUNT = 100_000
TIME_START_MS = 1_700_000_000_000
TIME_STEP_MS = 1_000
TIMED_COUNT = 500
AT_ONCE = {"fetchOffset.retryIntervalMs": "10"}  # Spark asks three times before it gives up


@pytest.fixture(scope="module")
def written(warm_spark: WarmSpark, server: Server, new_topic: NewTopicName) -> str:
    """A topic of four partitions into which Spark has written all rows."""
    topic = new_topic("rows")
    warm_spark.run(
        f"{JOBS}.batch.write",
        servers=server.bootstrap_servers,
        topic=topic,
        count=ROW_COUNT,
        options={},
    )
    return topic


@pytest.fixture(scope="module")
def timed(server: Server, new_topic: NewTopicName) -> str:
    """A topic of two partitions whose records are a second apart."""
    topic = new_topic("timed", partitions=2)
    producer = Producer(
        {"bootstrap.servers": server.bootstrap_servers, "log_level": 0, "batch.num.messages": 50}
    )
    for partition in (0, 1):
        for number in range(TIMED_COUNT):
            producer.produce(
                topic,
                value=str(number),
                partition=partition,
                timestamp=TIME_START_MS + number * TIME_STEP_MS,
            )
    assert producer.flush(30) == 0
    return topic


def _read(
    warm_spark: WarmSpark, server: Server, **options: object
) -> dict[tuple[str, int], tuple[int, int]]:
    """First and last offset read of each partition; all between have been read once."""
    text = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in options.items()
    }
    summary = warm_spark.run(f"{JOBS}.batch.read", servers=server.bootstrap_servers, options=text)
    for line in summary:
        assert_gapless(line)
    return {(line["topic"], line["partition"]): (line["first"], line["last"]) for line in summary}


@pytest.mark.every_release
def test_spark_reads_what_spark_wrote(warm_spark: WarmSpark, server: Server, written: str) -> None:
    summary = warm_spark.run(
        f"{JOBS}.batch.read", servers=server.bootstrap_servers, options={"subscribe": written}
    )
    assert [line["partition"] for line in summary] == [0, 1, 2, 3]
    assert_exactly(summary, ROW_COUNT)


def test_other_clients_read_what_spark_wrote(server: Server, written: str) -> None:
    found: dict[int, int] = {}
    key_partitions: dict[bytes, set[int]] = {}
    for partition, key, value, headers in _consume(server, written):
        number = int(value.removeprefix(b"value-"))
        found[number] = found.get(number, 0) + 1
        assert key == b"key-%d" % (number % 1000)
        assert headers == [("number", b"%d" % number), ("source", b"spark")]
        key_partitions.setdefault(key, set()).add(partition)
    assert len(found) == ROW_COUNT
    assert set(found.values()) == {1}
    assert all(len(partitions) == 1 for partitions in key_partitions.values())


def _consume(
    server: Server, topic: str
) -> Iterator[tuple[int, bytes, bytes, list[tuple[str, bytes]]]]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "readers",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(4)])
        ended, deadline = 0, time.monotonic() + 60
        while ended < 4:
            assert time.monotonic() < deadline, "not all partitions have ended"
            for message in consumer.consume(1_000, timeout=0.1):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended += 1
                else:
                    yield message.partition(), message.key(), message.value(), message.headers()
    finally:
        consumer.close()


def test_per_partition_offsets(warm_spark: WarmSpark, server: Server, written: str) -> None:
    read = _read(
        warm_spark,
        server,
        subscribe=written,
        startingOffsets={written: {"0": 100, "1": -2, "2": 7, "3": 5}},
        endingOffsets={written: {"0": 200, "1": 50, "2": -1, "3": 6}},
    )
    everything = _read(warm_spark, server, subscribe=written)
    assert read == {
        (written, 0): (100, 199),
        (written, 1): (0, 49),
        (written, 2): (7, everything[written, 2][1]),
        (written, 3): (5, 5),
    }


def test_assigned_partitions(warm_spark: WarmSpark, server: Server, written: str) -> None:
    read = _read(warm_spark, server, assign={written: [1, 3]})
    assert sorted(read) == [(written, 1), (written, 3)]


def test_min_partitions_split_the_reading(
    warm_spark: WarmSpark, server: Server, written: str
) -> None:
    summary = warm_spark.run(
        f"{JOBS}.batch.read",
        servers=server.bootstrap_servers,
        options={"subscribe": written, "minPartitions": "12"},
    )
    assert_exactly(summary, ROW_COUNT)
    assert len({task for line in summary for task in line["tasks"]}) >= 12


def test_a_pattern_subscribes_to_matching_topics_only(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName
) -> None:
    names = [new_topic("wanted-a"), new_topic("wanted-b"), new_topic("other")]
    for name in names:
        warm_spark.run(
            f"{JOBS}.batch.write",
            servers=server.bootstrap_servers,
            topic=name,
            count=100,
            options={},
        )
    summary = warm_spark.run(
        f"{JOBS}.batch.read",
        servers=server.bootstrap_servers,
        options={"subscribePattern": f"{names[0]}|{names[1]}|nothing-.*"},
    )
    assert {line["topic"] for line in summary} == set(names[:2])
    assert total(summary, "count") == 200


def test_one_time_for_all_partitions(warm_spark: WarmSpark, server: Server, timed: str) -> None:
    read = _read(
        warm_spark,
        server,
        subscribe=timed,
        startingTimestamp=TIME_START_MS + 100 * TIME_STEP_MS,
        endingTimestamp=TIME_START_MS + 199 * TIME_STEP_MS + 1,
    )
    assert read == {(timed, 0): (100, 199), (timed, 1): (100, 199)}


def test_a_time_for_each_partition(warm_spark: WarmSpark, server: Server, timed: str) -> None:
    read = _read(
        warm_spark,
        server,
        subscribe=timed,
        startingOffsetsByTimestamp={
            timed: {"0": TIME_START_MS - 1, "1": TIME_START_MS + 250 * TIME_STEP_MS - 1}
        },
        endingOffsetsByTimestamp={
            timed: {"0": TIME_START_MS + 10 * TIME_STEP_MS, "1": TIME_START_MS * 2}
        },
    )
    assert read == {(timed, 0): (0, 9), (timed, 1): (250, TIMED_COUNT - 1)}


def test_a_time_after_the_last_record(warm_spark: WarmSpark, server: Server, timed: str) -> None:
    after_ms = TIME_START_MS + TIMED_COUNT * TIME_STEP_MS
    with pytest.raises(JobFailed, match=r"(?i)no offset matched"):
        _read(warm_spark, server, subscribe=timed, startingTimestamp=after_ms, **AT_ONCE)
    assert not _read(
        warm_spark,
        server,
        subscribe=timed,
        startingTimestamp=after_ms,
        startingOffsetsByTimestampStrategy="latest",
    )


def test_an_unknown_topic_is_an_error_and_is_not_made(
    warm_spark: WarmSpark, server: Server
) -> None:
    with pytest.raises(JobFailed, match="UnknownTopicOrPartition"):
        _read(warm_spark, server, subscribe="nobody-made-this")
    with pytest.raises(JobFailed, match="UnknownTopicOrPartition"):
        _read(warm_spark, server, subscribe="nobody-made-this")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_by_spark(
    codec: str, warm_spark: WarmSpark, server: Server, new_topic: NewTopicName
) -> None:
    topic = new_topic(codec)
    warm_spark.run(
        f"{JOBS}.batch.write",
        servers=server.bootstrap_servers,
        topic=topic,
        count=1_000,
        options={"kafka.compression.type": codec},
    )
    summary = warm_spark.run(
        f"{JOBS}.batch.read", servers=server.bootstrap_servers, options={"subscribe": topic}
    )
    assert_exactly(summary, 1_000)


def test_every_field_arrives(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName
) -> None:
    topic = new_topic("fields", partitions=1)
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    values = [b"", None, bytes(range(256)), "schön".encode()]
    for number, value in enumerate(values):
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("n", None)]
        producer.produce(
            topic, value, key=None if number else b"\x00key", headers=headers, timestamp=5 + number
        )
    assert producer.flush(30) == 0
    rows = warm_spark.run(
        f"{JOBS}.batch.read_rows", servers=server.bootstrap_servers, options={"subscribe": topic}
    )
    assert rows == [
        {
            "topic": topic,
            "partition": 0,
            "offset": number,
            "timestamp_ms": 5 + number,
            "timestamp_type": 0,
            "key": None if number else b"\x00key".hex().upper(),
            "value": None if value is None else value.hex().upper(),
            "headers": [["n", (b"%d" % number).hex().upper()], ["n", None]],
        }
        for number, value in enumerate(values)
    ]


def test_committed_records_only(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName
) -> None:
    topic = new_topic("transactions", partitions=1)
    producer = Librdkafka(server.bootstrap_servers, topic, TIMEOUT_MS)
    for value in ("first", "aborted", "second", "open"):
        producer.begin()
        producer.send(topic, value)
        if value != "open":
            (producer.abort if value == "aborted" else producer.commit)()
    rows = warm_spark.run(
        f"{JOBS}.batch.read_rows",
        servers=server.bootstrap_servers,
        options={"subscribe": topic, "kafka.isolation.level": "read_committed"},
    )
    assert [bytes.fromhex(row["value"]) for row in rows] == [b"first", b"second"]
    producer.abort()
