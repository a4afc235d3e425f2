"""`python -m benchmarks.compaction`: our cleaner beside Apache Kafka 3.9.2's, on the same segments.

Kafka writes a topic with values of 1 KiB on few keys; its directory is copied. Odradek's job cleans
the copy, then Kafka cleans the topic, unthrottled, with the same segment and buffer settings. Both
have one thread and end with an fsync of what they wrote. Rates are bytes of log by seconds on the
clock and by seconds of processor time of that thread, which a busy machine does not change.
"""

import argparse
import itertools
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from odradek.storage.files import RealFileSystem
from odradek.storage.jobs import run_job
from tests.kafka.apache import Kafka39

VALUE_BYTES: Final = 1024
RECORDS_PER_KEY: Final = 5
SEGMENT_BYTES: Final = 64 << 20
IO_BUFFER_BYTES: Final = 512 << 10
MAP_BYTES: Final = 128 << 20
TIMEOUT_S: Final = 300.0
LOUD: Final = "log4j.logger.kafka.log.LogCleaner=INFO\n"
CLEANED: Final = re.compile(
    r"cleaned log (\S+)-0 .*?([\d,.]+) MB of log processed in ([\d,.]+) s", re.S
)
TOPIC: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.001",
}


class LoudKafka(Kafka39):
    """Its cleaner says how fast it was."""

    def _prepare(self) -> None:
        super()._prepare()
        with (self.directory / "log4j.properties").open("a") as config:
            config.write(LOUD)


@dataclass(frozen=True, slots=True)
class Speed:
    """Bytes a second by the clock, and by processor time."""

    by_clock: float
    by_processor: float


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400, help="values in each topic")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", nargs="+", default=["none", "lz4"])
    parser.add_argument("--directory", type=Path, help="where the files go meanwhile")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="compaction-", dir=given.directory))
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
    kafka = LoudKafka(home / "kafka", settings, heap_mb=1024, jvm_options=())
    try:
        kafka.start()
        measure(kafka, home, "warm-up", given.codec[0], given.megabytes)  # Java compiles
        for codec in given.codec:
            rounds = [
                measure(kafka, home, f"{codec}-{number}", codec, given.megabytes)
                for number in range(given.rounds)
            ]
            show(codec, rounds)
    finally:
        kafka.close()
        shutil.rmtree(home)
    return 0


def show(codec: str, rounds: list[tuple[Speed, Speed]]) -> None:
    """Print medians and their ratio."""
    for title, field in (("clock", "by_clock"), ("processor", "by_processor")):
        kafkas, ours = (
            [getattr(speeds[side], field) / 1e6 for speeds in rounds] for side in (0, 1)
        )
        ratio = statistics.median(ours) / statistics.median(kafkas)
        print(
            f"{codec:>6} by {title:9}: Apache Kafka 3.9.2 {statistics.median(kafkas):5.0f} MB/s, "
            f"Odradek {statistics.median(ours):5.0f} MB/s, ratio {ratio:.2f}   "
            f"({', '.join(f'{k:.0f}/{o:.0f}' for k, o in zip(kafkas, ours, strict=True))})",
            flush=True,
        )


def measure(
    kafka: LoudKafka, home: Path, topic: str, codec: str, megabytes: int
) -> tuple[Speed, Speed]:
    """Kafka's speed and ours for a new topic."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=TOPIC)])[topic].result()
    fill(kafka.bootstrap_servers, topic, codec, megabytes)
    copy = home / "copy"
    shutil.copytree(kafka.data_dir / f"{topic}-0", copy)
    ours = clean(copy)
    shutil.rmtree(copy)
    kafkas = have_cleaned(kafka, admin, topic)
    admin.delete_topics([topic])[topic].result()
    return kafkas, ours


def fill(bootstrap_servers: str, topic: str, codec: str, megabytes: int) -> None:
    """Write records whose values compress to about two thirds, each key several times."""
    chance = random.Random(1)
    values = ["".join(chance.choices("0123456789abcdef", k=VALUE_BYTES)) for _ in range(500)]
    count = (megabytes << 20) // VALUE_BYTES
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.codec": codec,
            "linger.ms": 50,
            "batch.size": 16 << 10,
        }
    )
    for number in range(count):
        key = f"key-{chance.randrange(count // RECORDS_PER_KEY):010d}"
        while True:
            try:
                producer.produce(topic, values[number % 500], key)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def clean(directory: Path) -> Speed:
    """Our job, in this process."""
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    segments = [
        {
            "base_offset": base,
            "next_offset": following,
            "size_bytes": (directory / f"{base:020d}.log").stat().st_size,
        }
        for base, following in itertools.pairwise(bases)
    ]
    arguments = {
        "directory": str(directory),
        "segments": segments,
        "first_dirty_offset": 0,
        "end_offset": bases[-1],
        "wall_ms": int(time.time() * 1000),
        "delete_retention_ms": 86_400_000,
        "segment_bytes": SEGMENT_BYTES,
        "segment_index_bytes": 10 << 20,
        "index_interval_bytes": 4096,
        "record_bytes_max": 1 << 30,
        "map_bytes": MAP_BYTES,
        "load_factor": 0.9,
        "io_buffer_bytes": IO_BUFFER_BYTES,
        "producers": [],
    }
    began_s, processor_s = time.perf_counter(), time.process_time()
    result = run_job("clean", arguments, RealFileSystem(), lambda _: None)
    took_s, processor_s = time.perf_counter() - began_s, time.process_time() - processor_s
    assert result["end_offset"] == bases[-1]
    size_bytes = result["statistics"]["bytes_read"]
    return Speed(size_bytes / took_s, size_bytes / processor_s)


def have_cleaned(kafka: LoudKafka, admin: AdminClient, topic: str) -> Speed:
    """Kafka's cleaner; its log line tells how long it took."""
    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    processor_s = cleaner_seconds(kafka.pid)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
        for name, megabytes, seconds in CLEANED.findall(kafka.output):
            if name == topic:
                size_bytes = float(megabytes.replace(",", "")) * (1 << 20)
                processor_s = cleaner_seconds(kafka.pid) - processor_s
                return Speed(size_bytes / float(seconds.replace(",", "")), size_bytes / processor_s)
    raise TimeoutError(f"Kafka does not clean {topic}\n{kafka.output[-2000:]}")


def cleaner_seconds(pid: int) -> float:
    """Processor time of Kafka's cleaner thread."""
    ticks = sum(sum(fields) for fields in _cleaner_ticks(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def _cleaner_ticks(pid: int) -> Iterator[tuple[int, int]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        _, name, *_ = re.split(r"[()]", (task / "stat").read_text())
        if name.startswith("kafka-log-clean"):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            yield int(fields[11]), int(fields[12])


if __name__ == "__main__":
    sys.exit(main())
