"""The data source in Spark: equal to the Kafka source, on Odradek's files and on Apache Kafka's."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.storage.log.checkpoint import HIGH_WATERMARK
from tests.pipeline import ledger
from tests.pipeline.segment_files import PartitionFiles, flip, write_checkpoints
from tests.spark.child import JobFailed
from tests.spark.warm import WarmSpark
from tests.support.waiting import until
from tests.wire.servers import Server, make_server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
JOBS = "tests.pipeline.segment_jobs"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PLAIN = len(CODECS) * 3_000
DEADLINE_S = 60
LEDGER = ledger.RECORDS + 2  # two that are not to be seen by all
SETTINGS = {
    "log.segment.bytes": str(1 << 20),
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "transaction.state.log.num.partitions": "1",
}


class Filled(NamedTuple):
    """A broker with its records."""

    server: Server
    has_transactions: bool

    @property
    def data_dir(self) -> str:
        return str(self.server.data_dir)


@pytest.fixture(
    scope="module",
    params=[
        "odradek",
        pytest.param("kafka-4.3", marks=pytest.mark.java),
        pytest.param("kafka-3.9", marks=[pytest.mark.java, pytest.mark.soak]),
    ],
)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Filled"]:
    """A broker with records of every kind; it goes on running."""
    server = make_server(request.param, tmp_path_factory.mktemp("filled"), SETTINGS)
    try:
        server.start()
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
        topics = [NewTopic("plain", 2, config={"retention.ms": "-1"}), NewTopic("ledger", 2)]
        for made in admin.create_topics(topics).values():
            made.result(DEADLINE_S)
        for codec in CODECS:
            _fill(server, codec)
        has_transactions = request.param != "odradek"
        if has_transactions:
            _transactions(server)
        until((server.data_dir / HIGH_WATERMARK).exists, timeout_s=DEADLINE_S)
        yield Filled(server, has_transactions)
    finally:
        server.close()


def _fill(server: Server, codec: str) -> None:
    chance = random.Random(codec)
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": True,  # a batch that is sent again stays where it was
            "linger.ms": 50,
            "log_level": 0,
        }
    )
    for number in range(3_000):
        headers = [("n", b"%d" % number), ("none", None)][: number % 3]
        producer.produce(
            "plain",
            None if number % 17 == 0 else chance.randbytes(chance.choice((0, 10, 100, 1_000))),
            key=None if number % 5 == 0 else b"key-%d" % (number % 50),
            headers=headers,
            timestamp=1_700_000_000_000 + number - number % 4 * 1_000,
        )
    assert producer.flush(DEADLINE_S) == 0


def _transactions(server: Server) -> None:
    producers = ledger.transact(server.bootstrap_servers, "ledger")
    producers[0].begin_transaction()
    producers[0].produce("ledger", b"open", key=b"open")
    producers[0].flush(DEADLINE_S)
    producers[1].begin_transaction()  # what lies behind an open transaction is not to be seen
    producers[1].produce("ledger", b"behind", key=b"open")
    producers[1].commit_transaction(DEADLINE_S)
    _open.append(producers[0])


_open: list[Producer] = []  # a producer that goes aborts its transaction


def compare(
    spark: WarmSpark, filled: Filled, options: dict[str, str], more: Mapping[str, str] = {}
) -> dict[str, Any]:
    """The comparison, once the broker has noted how far its records are committed."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        result: dict[str, Any] = spark.run(
            f"{JOBS}.differences",
            servers=filled.server.bootstrap_servers,
            data_dir=filled.data_dir,
            options=options,
            more=dict(more),
        )
        if not result["missing"] or time.monotonic() > deadline:
            return result


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_equal_to_the_kafka_source_while_the_broker_runs(
    filled: Filled, warm_spark_4_0: WarmSpark, isolation: str
) -> None:
    options = {
        "subscribe": "plain,ledger",
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
    }
    result = compare(warm_spark_4_0, filled, options, {"maxPartitionBytes": "400k"})
    assert result["schemas"][0] == result["schemas"][1]
    assert (result["missing"], result["added"]) == (0, 0)
    written = {"read_uncommitted": LEDGER, "read_committed": ledger.COMMITTED}
    assert result["rows"] == PLAIN + (written[isolation] if filled.has_transactions else 0)


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": "1700000001500", "endingTimestamp": "1700000002200"},
        {
            "startingOffsets": '{"plain": {"0": 100, "1": -2}}',
            "endingOffsets": '{"plain": {"0": 777, "1": 50}}',
        },
        {
            "startingOffsetsByTimestamp": '{"plain": {"0": 1700000002990, "1": 0}}',
            "endingOffsetsByTimestamp": '{"plain": {"0": 1800000000000, "1": 1700000000500}}',
        },
    ],
    ids=["times", "offsets", "offsets by times"],
)
def test_equal_within_bounds(
    filled: Filled, warm_spark_4_0: WarmSpark, options: dict[str, str]
) -> None:
    result = compare(warm_spark_4_0, filled, {"subscribe": "plain", **options})
    assert result["rows"] > 0
    assert (result["missing"], result["added"]) == (0, 0)


def test_a_killed_brokers_directory(
    filled: Filled, warm_spark_4_0: WarmSpark, tmp_path: Path
) -> None:
    """Nothing was tidied up; all that is valid is read, and the files stay as they are."""
    filled.server.kill()
    try:
        before = _state(Path(filled.data_dir))
        options = {"topics": "plain,ledger", "toLogEnd": "true"}
        count = warm_spark_4_0.run(f"{JOBS}.registered", data_dir=filled.data_dir, options=options)
        assert count == PLAIN + (LEDGER if filled.has_transactions else 0)
        assert _state(Path(filled.data_dir)) == before
    finally:
        filled.server.start()


def test_there_is_no_stream(filled: Filled, warm_spark_4_0: WarmSpark) -> None:
    with pytest.raises(JobFailed, match=r'format."odradek". cannot be streamed: read segment'):
        warm_spark_4_0.run(f"{JOBS}.streamed", data_dir=filled.data_dir)


def _state(directory: Path) -> dict[Path, tuple[int, int]]:
    state = {}
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            state[path] = path.stat().st_mtime_ns, path.stat().st_size
    return state


def test_damage_is_shown_as_a_table(warm_spark_4_0: WarmSpark, tmp_path: Path) -> None:
    files = PartitionFiles(tmp_path, "t")
    positions = [files.batch() for _ in range(20)]
    write_checkpoints(tmp_path, {files.close().key: files.next_offset})
    flip(files.logs[0], positions[4] + 70)
    read = {"data_dir": str(tmp_path), "options": {"minPartitions": "4"}}
    assert len(warm_spark_4_0.run(f"{JOBS}.rows", **read)) == 190
    # A Python worker says it, and a thread of Spark's passes it on.
    until(lambda: "segment damaged path=" in warm_spark_4_0.log.read_text(), timeout_s=60)
    read["options"] = {"showDamage": "true"}
    (damage,) = warm_spark_4_0.run(f"{JOBS}.rows", **read)
    assert (damage["position"], damage["offset"]) == (positions[4], 40)
    read["options"] = {"mode": "FAILFAST"}
    with pytest.raises(JobFailed, match=f"damaged at position {positions[4]}"):
        warm_spark_4_0.run(f"{JOBS}.rows", **read)


def test_tasks_follow_the_size(warm_spark_4_0: WarmSpark, tmp_path: Path) -> None:
    files = PartitionFiles(tmp_path, "t")
    for _ in range(100):
        files.batch()
    write_checkpoints(tmp_path, {files.close().key: files.next_offset})
    read = {"data_dir": str(tmp_path), "options": {}}
    assert warm_spark_4_0.run(f"{JOBS}.partitions", **read) == 1
    read["options"] = {"minPartitions": "10"}
    assert 8 <= warm_spark_4_0.run(f"{JOBS}.partitions", **read) <= 12


def test_what_is_wrong_is_said_in_a_sentence(warm_spark_4_0: WarmSpark, tmp_path: Path) -> None:
    for given, message in (
        ({"topic": "t"}, "has no option topic"),
        ({"topics": "t"}, "has no topic t"),
        ({"pushFilters": "true"}, "needs PySpark 4.1"),
    ):
        PartitionFiles(tmp_path / message, "u").close()
        write_checkpoints(tmp_path / message, {})
        with pytest.raises(JobFailed, match=message):
            read = {"data_dir": str(tmp_path / message), "options": given}
            warm_spark_4_0.run(f"{JOBS}.rows", **read)
