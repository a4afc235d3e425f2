"""`python -m benchmarks.produce_while_compacting`: what compaction costs those who produce.

One-record Produce at a fixed pace to a topic, while nothing else happens and while the same broker
compacts another one (1 KiB values, ten records a key, small segments so that many are swapped).
The two take turns; the median of the rounds counts. The target: p99.9 at most 3 times as high.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
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

from . import topics
from .brokers import RunningBroker, start_odradek
from .busy import busy_cores
from .programs import run_python

VALUE: Final = os.urandom(512) * 2
RECORDS_PER_KEY: Final = 10
SEGMENT_BYTES: Final = 4 << 20
SETTINGS: Final = {"ODRADEK_LOG_CLEANER_BACKOFF_MS": "100"}
METRICS: Final = ("p50", "p99", "p99_9", "max")
TIMEOUT_S: Final = 120.0


def fill(address: str, topic: str, megabytes: int) -> None:
    """A topic that is to be compacted once its policy says so."""
    configs = {
        "cleanup.policy": "delete",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "0.01",
        "file.delete.delay.ms": "1000",
    }
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, config=configs)])[topic].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20})
    count = megabytes * 1_000_000 // len(VALUE)
    for number in range(count):
        while len(producer) > 50_000:
            producer.poll(0.01)
        producer.produce(topic, VALUE, b"%d" % (number % (count // RECORDS_PER_KEY)))
    producer.flush()


def compact(address: str, topic: str, directory: Path) -> None:
    """Have it compacted; return once that has begun."""
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while not is_compacting(directory):
        if time.monotonic() > deadline:
            raise TimeoutError("the compaction did not begin")
        time.sleep(0.01)


def is_compacting(directory: Path) -> bool:
    """Whether a compaction goes on."""
    return any(name.endswith((".cleaned", ".swap")) for name in os.listdir(directory))


def produce(
    broker: RunningBroker, name: str, per_second: float, seconds: float
) -> dict[str, float]:
    """The latencies of one run on a topic of its own."""
    topic = topics.create(broker.address, name)
    found = run_python(
        "paced_produce",
        *("--address", str(broker.address)),
        *("--topic", topic.name),
        *("--per-second", str(per_second)),
        *("--seconds", str(seconds)),
    )
    topics.delete(broker.address, topic.name)
    return found


def measure(
    broker: RunningBroker, data: Path, given: argparse.Namespace
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The latencies of each round, without and with a compaction."""
    quiet, busy = [], []
    for number in range(given.rounds + 1):
        compacted = f"compacted-{number}"
        fill(str(broker.address), compacted, given.megabytes)
        os.sync()
        idle = produce(broker, f"idle-{number}", given.per_second, given.seconds)
        compact(str(broker.address), compacted, data / f"{compacted}-0")
        loaded = produce(broker, f"loaded-{number}", given.per_second, given.seconds)
        if not is_compacting(data / f"{compacted}-0"):
            print("the compaction ended before the measurement: more --megabytes", file=sys.stderr)
        topics.delete(broker.address, compacted)
        if number:  # the first round warms up
            quiet.append(idle)
            busy.append(loaded)
    return quiet, busy


def main(arguments: list[str]) -> int:
    """Print a line for each percentile."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.produce_while_compacting", description=__doc__
    )
    parser.add_argument("--megabytes", type=int, default=400, help="to compact in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--per-second", type=float, default=1000.0)
    parser.add_argument("--directory", type=Path, help="where the files go meanwhile")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="odradek-compacting-", dir=given.directory) as home:
        broker = start_odradek(Path(home), env={**os.environ, **SETTINGS})
        try:
            with busy_cores():
                quiet, busy = measure(broker, Path(home) / "data", given)
        finally:
            broker.stop()
    print(f"one-record Produce at {given.per_second:g} a second: milliseconds, median of rounds")
    for metric in METRICS:
        without, beside = (statistics.median(r[metric] for r in rounds) for rounds in (quiet, busy))
        ratio = beside / without
        print(
            f"{metric:6} without {without * 1e3:8.3f}, compacting {beside * 1e3:8.3f}, {ratio:.2f}x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
