"""Topics with offsets that hold no record, as transactions and compaction leave them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.pipeline.kafka import Kafka
from tests.pipeline import ledger
from tests.pipeline.copies import Stored
from tests.spark.warm import WarmSpark
from tests.support.waiting import until
from tests.wire.servers import Server, make_server

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

PARTITIONS = 2
KEYS = 5
ROUNDS = 4
LEFT = 1 + 2 * KEYS
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "transaction.state.log.num.partitions": "1",
}
LATEST = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "1000",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An Apache Kafka with a topic `ledger` and a topic `latest`, which it has compacted."""
    server = make_server("kafka-4.3", tmp_path_factory.mktemp("kafka"), SETTINGS)
    try:
        server.start()
        servers = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        topics = [NewTopic("ledger", PARTITIONS), NewTopic("latest", 1, config=LATEST)]
        for made in admin.create_topics(topics).values():
            made.result(ledger.TIMEOUT_S)
        ledger.transact(servers, "ledger")
        write_rounds(servers)
        # What is left is the last of each key, but for the segment that is written to.
        until(lambda: Stored(servers, "latest").count == LEFT, timeout_s=60)
        yield server
    finally:
        server.close()


def write_rounds(servers: str) -> None:
    """All keys again and again, and one only once; by its time each round begins a segment."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    begin_ms = time.time_ns() // 1_000_000 - ROUNDS * 10_000
    producer.produce("latest", b"0", key=b"once", timestamp=begin_ms)
    for number in range(ROUNDS):
        for key in range(KEYS):
            at_ms = begin_ms + number * 10_000
            producer.produce("latest", b"%d" % number, key=b"%d" % key, timestamp=at_ms)
        assert producer.flush(ledger.TIMEOUT_S) == 0


class Holes:
    """Commands on one topic of that Kafka."""

    def __init__(self, spark: WarmSpark, kafka: Server, topic: str, folder: Path) -> None:
        self.spark = spark
        self.servers = kafka.bootstrap_servers
        self.topic = topic
        self.archive = str(folder / "archive")
        self.report = folder / "report.json"

    def done(self, job: str, *more: str) -> str:
        result = self.spark.command(job, "-b", self.servers, *more)
        assert result.code == 0, result
        return result.stdout

    def archived_and_back(self, copy: str, count: int, *more: str) -> list[int]:
        """Archive, replay, audit; the offsets that broker, archive and copy say have no record."""
        to = ("--topics", self.topic, "--to", self.archive)
        assert self.done("archive", *to, "--once", *more).startswith(f"{count} records archived")
        back = ("--archive", self.archive, "--topic", self.topic, "--to-topic", copy)
        assert self.done("replay", *back) == f"{count} records written to {copy}\n"
        sides = ("--topics", self.topic, "--archive", self.archive, "--against-topic", copy)
        self.done("audit", *sides, "--json", str(self.report))
        report: dict[str, Any] = json.loads(self.report.read_text())
        assert report["equal"]
        return [
            sum(partition["absent_in_both"] for partition in comparison["partitions"])
            for comparison in report["comparisons"]
        ]

    def offsets(self) -> int:
        """How many its partitions have gone through."""
        cluster = Kafka(self.servers)
        try:
            return sum(cluster.latest(self.topic).values())
        finally:
            cluster.close()


@pytest.mark.parametrize(
    ("isolation", "count", "outside"),
    [
        ("read_uncommitted", ledger.RECORDS, 2 * PARTITIONS),  # the last markers
        # The first transaction and the last were aborted.
        ("read_committed", ledger.COMMITTED, 20 + 20 + 2 * PARTITIONS),
    ],
)
def test_markers_and_aborted_records_are_no_gaps(
    kafka: Server, warm_spark: WarmSpark, tmp_path: Path, isolation: str, count: int, outside: int
) -> None:
    """`outside`: offsets before the first record or behind the last one."""
    holes = Holes(warm_spark, kafka, "ledger", tmp_path)
    copy = f"ledger-{isolation}-{warm_spark.spark.name}"
    absent = holes.archived_and_back(copy, count, "--isolation-level", isolation)
    assert absent == [holes.offsets() - count - outside] * 2


def test_a_mirror_leaves_aborted_records_out_if_asked(kafka: Server, warm_spark: WarmSpark) -> None:
    servers, prefix = kafka.bootstrap_servers, f"of-{warm_spark.spark.name}."
    line = ("--topics", "ledger", "--prefix", prefix, "--once", "--name", "one")
    committed = ("--isolation-level", "read_committed")
    said = warm_spark.command("mirror", "--from", servers, "--to", servers, *line, *committed)
    assert said.stdout == f"{ledger.COMMITTED} records written\n", said

    def audited(*more: str) -> int:
        line = ("-b", servers, "--topics", "ledger", "--against-topic", f"{prefix}ledger")
        return warm_spark.command("audit", *line, *more).code

    assert audited(*committed) == 0
    assert audited() == 1, "the aborted ones are missing"
    assert audited(*committed, "--against-name", "one") == 0
    assert audited(*committed, "--against-name", "another") == 1


def test_compacted_records_are_no_gaps(
    kafka: Server, warm_spark: WarmSpark, tmp_path: Path
) -> None:
    holes = Holes(warm_spark, kafka, "latest", tmp_path)
    assert holes.offsets() == 1 + ROUNDS * KEYS
    absent = holes.archived_and_back(f"latest-{warm_spark.spark.name}", LEFT)
    assert absent == [1 + ROUNDS * KEYS - LEFT] * 2
