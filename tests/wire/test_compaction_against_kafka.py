"""The same segments, cleaned by a real Kafka 3.9.2 and by us: the same batches come out.

Kafka writes the log and keeps it while the topic's policy is delete; the directory is copied, then
the policy becomes compact. When Kafka compacted is seen in its delete horizons. What we make of the
copy at that time is compared with what Kafka made, byte by byte where nothing was compressed anew.
"""

import itertools
import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek.protocol.records import BatchHeader, iter_batches
from odradek.protocol.records.record import records_of
from odradek.storage.files import RealFileSystem
from odradek.storage.jobs import run_job
from tests.kafka.apache import ApacheKafka, apache_kafka
from tests.support.waiting import until

pytestmark = pytest.mark.java

TIMEOUT_S: Final = 60.0
SEGMENT_BYTES: Final = 16_384
INDEX_INTERVAL_BYTES: Final = 1000
RECORD_BYTES_MAX: Final = 1 << 24
SETTINGS: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "log.segment.delete.delay.ms": "60000",
}
TOPIC: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
    "index.interval.bytes": str(INDEX_INTERVAL_BYTES),
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": str(1 << 60),
}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with apache_kafka("3.9.2", settings=SETTINGS) as broker:
        yield broker


class Topic:
    """A topic on Kafka with its directory, and how often which part of it was cleaned."""

    def __init__(self, kafka: ApacheKafka, name: str, settings: dict[str, str]) -> None:
        self.kafka = kafka
        self.name = name
        self.directory = kafka.data_dir / f"{name}-0"
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self.delete_retention_ms = int(settings.get("delete.retention.ms", 86_400_000))
        new = NewTopic(name, 1, 1, config={**TOPIC, **settings})
        self.admin.create_topics([new])[name].result()
        self.cleaned_offset = 0

    def configure(self, name: str, value: str) -> None:
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[change])
        for done in self.admin.incremental_alter_configs([resource]).values():
            done.result()

    def clean(self) -> None:
        """Have Kafka clean it up to the active segment."""
        end_offset = self.end_offset()
        self.configure("cleanup.policy", "compact")
        until(lambda: self._checkpoint() >= end_offset, f"{self.name} is cleaned")
        self.configure("cleanup.policy", "delete")
        self.cleaned_offset = end_offset

    def _checkpoint(self) -> int:
        path = self.kafka.data_dir / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines() if path.exists() else []
        return max(
            (int(line.split()[2]) for line in lines if line.startswith(f"{self.name} ")), default=0
        )

    def end_offset(self) -> int:
        """The base offset of the active segment."""
        return max(int(path.stem) for path in self.directory.glob("*.log"))


def batches_in(path: Path) -> list[tuple[BatchHeader, bytes]]:
    data = path.read_bytes()
    return [
        (header, data[position : position + header.size_bytes])
        for position, header in iter_batches(data)
    ]


def content(log: Path) -> list[Any]:
    """Everything but how well it was compressed."""
    return [
        (header._replace(batch_length=0, crc=0), bytes(records_of(batch, header, RECORD_BYTES_MAX)))
        for header, batch in batches_in(log)
    ]


def producers_of(directory: Path) -> list[list[int]]:
    last: dict[int, list[int]] = {}
    for path in sorted(directory.glob("*.log")):
        for header, _ in batches_in(path):
            if header.producer_id >= 0:
                entry = last.setdefault(header.producer_id, [header.producer_id, 0, -1])
                entry[1] = header.producer_epoch
                if not header.is_control:
                    entry[2] = header.last_offset
    return list(last.values())


def clean_copy(copy: Path, first_dirty_offset: int, delete_retention_ms: int, wall_ms: int) -> Any:
    bases = sorted(int(path.stem) for path in copy.glob("*.log"))
    arguments = {
        "directory": str(copy),
        "segments": [
            {
                "base_offset": base,
                "size_bytes": (copy / f"{base:020d}.log").stat().st_size,
                "next_offset": next_base,
            }
            for base, next_base in itertools.pairwise(bases)
        ],
        "first_dirty_offset": first_dirty_offset,
        "end_offset": bases[-1],
        "wall_ms": wall_ms,
        "delete_retention_ms": delete_retention_ms,
        "segment_bytes": SEGMENT_BYTES,
        "segment_index_bytes": 10 << 20,
        "index_interval_bytes": INDEX_INTERVAL_BYTES,
        "record_bytes_max": RECORD_BYTES_MAX,
        "map_bytes": 8 << 20,
        "load_factor": 0.9,
        "io_buffer_bytes": 1 << 16,
        "producers": producers_of(copy),
    }
    return json.loads(json.dumps(run_job("clean", arguments, RealFileSystem(), lambda _: None)))


def compare(topic: Topic, copy: Path, first_dirty_offset: int, *, to_the_byte: bool) -> None:
    """Clean the copy as Kafka cleaned the topic; the files must be the same."""
    kafkas = sorted(topic.directory.glob("*.log"))[:-1]
    horizons = [
        header.base_timestamp
        for path in kafkas
        for header, _ in batches_in(path)
        if header.has_delete_horizon
    ]
    now_ms = int(time.time() * 1000)
    wall_ms = max(horizons) - topic.delete_retention_ms if horizons else now_ms
    result = clean_copy(copy, first_dirty_offset, topic.delete_retention_ms, wall_ms)
    assert result["end_offset"] == topic.cleaned_offset
    assert [segment["base_offset"] for segment in result["segments"]] == [
        int(path.stem) for path in kafkas
    ]
    for path in kafkas:
        cleaned = copy / f"{path.name}.cleaned"
        assert content(cleaned) == content(path)
        assert not to_the_byte or cleaned.read_bytes() == path.read_bytes()
        for suffix in ("index", "timeindex", "txnindex"):
            expected = path.with_suffix(f".{suffix}")
            ours = copy / f"{expected.name}.cleaned"
            assert ours.exists() == expected.exists(), ours
            if expected.exists() and to_the_byte:
                assert ours.read_bytes() == expected.read_bytes(), ours


def clean_and_compare(topic: Topic, scratch: Path, *, to_the_byte: bool = True) -> None:
    copy = scratch / f"{topic.name}-{topic.cleaned_offset}"
    # What the cleaning before has replaced may go at any moment.
    shutil.copytree(topic.directory, copy, ignore=shutil.ignore_patterns("*.deleted"))
    first_dirty_offset = topic.cleaned_offset
    topic.clean()
    compare(topic, copy, first_dirty_offset, to_the_byte=to_the_byte)


def fill(topic: Topic, codec: str, seed: int, *, count: int = 600) -> None:
    """Records on few keys: overwrites, tombstones, headers, null keys, long keys, odd times."""
    chance = random.Random(seed)
    producer = Producer(
        {
            "bootstrap.servers": topic.kafka.bootstrap_servers,
            "compression.codec": codec,
            "linger.ms": 1000,
            "enable.idempotence": chance.random() < 0.5,
        }
    )
    for number in range(count):
        send(producer, topic.name, number, chance)
        if chance.random() < 0.1:
            producer.flush()
    producer.flush()


def send(producer: Producer, topic: str, number: int, chance: random.Random) -> None:
    key: bytes | None = b"key-%d" % chance.randrange(60)
    if chance.random() < 0.1:
        assert key is not None
        key *= 20  # longer than what the map keeps as it is
    if chance.random() < 0.03:
        key = None
    value = None if chance.random() < 0.2 else b"value-%d " % number * chance.randrange(1, 30)
    headers: Sequence[tuple[str, bytes | None]] = [("name", b"x" * 3), ("null", None)]
    producer.produce(
        topic,
        value,
        key,
        timestamp=1_700_000_000_000 + number * 10 - chance.randrange(100_000),
        headers=list(headers) if chance.random() < 0.2 else [],
    )


def fill_in_transactions(topic: Topic, seed: int, *, count: int = 40) -> None:
    """Three producers whose transactions overlap, half of them aborted; one leaves soon."""
    chance = random.Random(seed)
    producers = [
        Producer(
            {
                "bootstrap.servers": topic.kafka.bootstrap_servers,
                "transactional.id": f"{topic.name}-{index}",
                "linger.ms": 1000,
            }
        )
        for index in range(3)
    ]
    for producer in producers:
        producer.init_transactions(TIMEOUT_S)
    for round_number in range(count):
        open_ones = chance.sample(
            producers[: 3 if round_number < 10 else 2], chance.randrange(1, 3)
        )
        for producer in open_ones:
            producer.begin_transaction()
        for _ in range(chance.randrange(1, 4)):
            for producer in open_ones:
                for number in range(chance.randrange(1, 8)):
                    send(producer, topic.name, number, chance)
                producer.flush()
        for producer in open_ones:
            if chance.random() < 0.5:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec(kafka: ApacheKafka, tmp_path: Path, codec: str) -> None:
    topic = Topic(kafka, f"codec-{codec}", {})
    fill(topic, codec, seed=1)
    clean_and_compare(topic, tmp_path, to_the_byte=codec == "none")
    fill(topic, codec, seed=2)  # some segments are clean now, tombstones are dated
    clean_and_compare(topic, tmp_path, to_the_byte=codec == "none")


def test_time_of_append(kafka: ApacheKafka, tmp_path: Path) -> None:
    topic = Topic(kafka, "append-time", {"message.timestamp.type": "LogAppendTime"})
    for seed in (3, 4):
        fill(topic, "none", seed)
        clean_and_compare(topic, tmp_path)


@pytest.mark.parametrize("delete_retention_ms", [0, 86_400_000])
def test_transactions(kafka: ApacheKafka, tmp_path: Path, delete_retention_ms: int) -> None:
    settings = {"delete.retention.ms": str(delete_retention_ms)}
    topic = Topic(kafka, f"transactions-{delete_retention_ms}", settings)
    for seed in (5, 6, 7):
        fill_in_transactions(topic, seed)
        clean_and_compare(topic, tmp_path)


def test_tombstones_go_after_their_time(kafka: ApacheKafka, tmp_path: Path) -> None:
    topic = Topic(kafka, "tombstones", {"delete.retention.ms": "0"})
    for seed in (8, 9, 10):
        fill(topic, "none", seed)
        clean_and_compare(topic, tmp_path)
