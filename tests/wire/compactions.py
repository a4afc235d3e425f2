"""Topics that Apache Kafka 3.9.2 has compacted: the segments before, and what became of them.

Kafka writes the log and keeps it while the topic's policy is delete; the directory is copied, then
the policy becomes compact. When Kafka compacted is seen in its delete horizons.
"""

import base64
import json
import lzma
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

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
from tests.kafka.apache import ApacheKafka, Kafka39
from tests.support.waiting import until
from tests.wire.fingerprint import fingerprint

TIMEOUT_S: Final = 60.0
VERSION: Final = Kafka39.version
SEGMENT_BYTES: Final = 16_384
INDEX_INTERVAL_BYTES: Final = 1000
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
DELETE_RETENTION_MS: Final = "delete.retention.ms"
KEPT: Final = frozenset({".log", ".index", ".timeindex", ".txnindex"})
RECORDINGS: Final = Path(__file__).parents[1] / "vectors" / "compaction"

Files = dict[str, bytes]


@dataclass(frozen=True)
class Cleaning:
    """One look of Kafka's cleaner at a log."""

    first_dirty_offset: int
    end_offset: int
    """The base offset of the active segment, which is not cleaned."""
    wall_ms: int
    delete_retention_ms: int
    before: Files
    after: Files
    """Without the active segment."""

    def as_json(self) -> dict[str, Any]:
        """The numbers, the sizes of the files, and all their bytes together."""
        files = [*self.before.values(), *self.after.values()]
        return {
            **vars(self),
            "before": {name: len(data) for name, data in self.before.items()},
            "after": {name: len(data) for name, data in self.after.items()},
            "bytes": base64.b64encode(lzma.compress(b"".join(files))).decode(),
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """The cleaning that `as_json` was made of."""
        data, position = lzma.decompress(base64.b64decode(found.pop("bytes"))), 0
        for side in ("before", "after"):
            files = {}
            for name, size_bytes in found[side].items():
                files[name] = data[position : position + size_bytes]
                position += size_bytes
            found[side] = files
        return cls(**found)


class Scenario(NamedTuple):
    """A topic with its settings, which is filled and cleaned, again and again."""

    name: str
    settings: dict[str, str]
    fillings: Sequence["Callable[[Topic], None]"]
    to_the_byte: bool = True

    @property
    def hash(self) -> str:
        """Of all that determines what Kafka gets and makes of it."""
        kafka = {**Kafka39.fixed, **SETTINGS}, VERSION
        return fingerprint(cleanings_by_kafka, self.name, self.settings, self.fillings, kafka)

    @property
    def path(self) -> Path:
        """The file of its recording."""
        return RECORDINGS / f"{self.name}.json"

    def write(self, cleanings: Sequence[Cleaning]) -> None:
        """Record what Kafka made."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        found = {"hash": self.hash, "cleanings": [cleaning.as_json() for cleaning in cleanings]}
        self.path.write_text(json.dumps(found, indent=1) + "\n")

    def read(self) -> list[Cleaning] | None:
        """What is recorded, unless it is of another scenario."""
        found = json.loads(self.path.read_text()) if self.path.exists() else {}
        if found.get("hash") != self.hash:
            return None
        return [Cleaning.from_json(cleaning) for cleaning in found["cleanings"]]


def cleanings_by_kafka(kafka: ApacheKafka, scenario: Scenario) -> Iterator[Cleaning]:
    """Have Kafka do it."""
    topic = Topic(kafka, scenario.name, scenario.settings)
    for fill_once in scenario.fillings:
        fill_once(topic)  # after the first time some segments are clean, and tombstones are dated
        first_dirty_offset, before = topic.cleaned_offset, topic.files()
        topic.clean()
        after = topic.files()
        active = f"{max(int(name[:20]) for name in after):020d}"
        after = {name: data for name, data in after.items() if not name.startswith(active)}
        yield Cleaning(
            first_dirty_offset,
            topic.cleaned_offset,
            _wall_ms(after, topic.delete_retention_ms),
            topic.delete_retention_ms,
            {name: data for name, data in before.items() if name.endswith((".log", ".txnindex"))},
            after,
        )


def _wall_ms(after: Files, delete_retention_ms: int) -> int:
    """When Kafka looked."""
    horizons = [
        header.base_timestamp
        for name, data in after.items()
        if name.endswith(".log")
        for header, _ in batches_in(data)
        if header.has_delete_horizon
    ]
    return max(horizons) - delete_retention_ms if horizons else time.time_ns() // 1_000_000


def batches_in(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    """The batches of a log, with their bytes."""
    return [
        (header, data[position : position + header.size_bytes])
        for position, header in iter_batches(data)
    ]


class Topic:
    """A topic on Kafka with its directory, and how often which part of it was cleaned."""

    def __init__(self, kafka: ApacheKafka, name: str, settings: dict[str, str]) -> None:
        self.kafka = kafka
        self.name = name
        self.directory = kafka.data_dir / f"{name}-0"
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        self.delete_retention_ms = int(settings.get(DELETE_RETENTION_MS, 86_400_000))
        new = NewTopic(name, 1, 1, config={**TOPIC, **settings})
        self.admin.create_topics([new])[name].result()
        self.cleaned_offset = 0

    def configure(self, name: str, value: str) -> None:
        """Change a setting."""
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

    def files(self) -> Files:
        """Its segments; what the cleaning before has replaced may go at any moment."""
        paths = sorted(self.directory.iterdir())
        return {path.name: path.read_bytes() for path in paths if path.suffix in KEPT}

    def _checkpoint(self) -> int:
        path = self.kafka.data_dir / "cleaner-offset-checkpoint"
        lines = path.read_text().splitlines() if path.exists() else []
        return max(
            (int(line.split()[2]) for line in lines if line.startswith(f"{self.name} ")), default=0
        )

    def end_offset(self) -> int:
        """The base offset of the active segment."""
        return max(int(path.stem) for path in self.directory.glob("*.log"))


def fill(topic: Topic, *, codec: str = "none", seed: int, count: int = 600) -> None:
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
    """One record."""
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


def fill_in_transactions(topic: Topic, *, seed: int, count: int = 40) -> None:
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


SCENARIOS: Final = (
    *(
        Scenario(
            f"codec-{codec}",
            {},
            [partial(fill, codec=codec, seed=seed) for seed in (1, 2)],
            to_the_byte=codec == "none",
        )
        for codec in CODECS
    ),
    Scenario(
        "append-time",
        {"message.timestamp.type": "LogAppendTime"},
        [partial(fill, seed=seed) for seed in (3, 4)],
    ),
    *(
        Scenario(
            f"transactions-{retention_ms}",
            {DELETE_RETENTION_MS: str(retention_ms)},
            [partial(fill_in_transactions, seed=seed) for seed in (5, 6, 7)],
        )
        for retention_ms in (0, 86_400_000)
    ),
    # Tombstones go after their time.
    Scenario("tombstones", {DELETE_RETENTION_MS: "0"}, [partial(fill, seed=s) for s in (8, 9, 10)]),
)
