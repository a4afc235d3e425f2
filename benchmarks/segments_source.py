"""`python -m benchmarks.segments_source`: Spark reads a topic from its broker and from its files.

One broker is filled and goes on running; then the same rows are made in alternation, in one session
of `local[2]`.  CPU seconds are those of all processes of Spark, and of the broker beside them.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from tests.spark.environment import RELEASES
from tests.spark.warm import WarmSpark

from . import spread
from .brokers import Kind, RunningBroker, running

TOPIC: Final = "read-twice"
JOBS: Final = "benchmarks.clients.spark_jobs."
CHECKPOINT_TIMEOUT_S: Final = 60.0
KAFKA_SOURCE: Final = "kafka"
SEGMENTS: Final = "odradek"
Sources = dict[str, dict[str, Any]]
Job = Callable[..., Any]
"""Calls a job of `clients/spark_jobs.py` by its name."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One read."""

    wall_s: float
    spark_cpu_s: float
    broker_cpu_s: float


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument(
        "--codec", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"]
    )
    parser.add_argument(
        "--broker", type=Kind, choices=[Kind.KAFKA, Kind.ODRADEK], default="odradek"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="where the broker's files go meanwhile")
    return parser.parse_args(arguments)


def sources(broker: RunningBroker, topic: str) -> Sources:
    """How each source is asked for a topic."""
    servers = f"{broker.address.host}:{broker.address.port}"
    kafka = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    path = str(broker.data_dir)
    return {
        KAFKA_SOURCE: {"format": "kafka", "options": kafka, "path": None},
        SEGMENTS: {"format": "odradek", "options": {"topics": topic}, "path": path},
    }


def wait_until_equal(job: Job, asked: Sources) -> None:
    """Both read the same, once the broker has noted its high watermark.  Raises: RuntimeError."""
    expected = job("check", source=asked[KAFKA_SOURCE])
    deadline = time.monotonic() + CHECKPOINT_TIMEOUT_S
    while (found := job("check", source=asked[SEGMENTS])) != expected:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the segments hold {found}, the broker serves {expected}")


def measure(spark: WarmSpark, broker: RunningBroker, source: dict[str, Any]) -> Sample:
    """One read."""
    before = cpu_s(os.getpid()), cpu_s(broker.process.pid)
    wall_s = spark.run(JOBS + "read", source=source)
    after = cpu_s(os.getpid()), cpu_s(broker.process.pid)
    broker_cpu_s = after[1] - before[1]
    return Sample(wall_s, after[0] - before[0] - broker_cpu_s, broker_cpu_s)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, of its children and of those that have ended."""
    root, total_s = psutil.Process(pid), 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total_s += sum(process.cpu_times()[:4])
    return total_s


def main(arguments: list[str]) -> int:
    """Measure and print."""
    given = parse(arguments)
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as home,
        running(given.broker, Path(home, "broker")) as broker,
    ):
        spread.fill(
            broker.address,
            TOPIC,
            records=given.records,
            value_size_bytes=given.value_bytes,
            codec=given.codec,
        )
        spark = WarmSpark(RELEASES["4.0"], Path(home, "spark"))
        try:
            asked = sources(broker, TOPIC)
            wait_until_equal(lambda name, **rest: spark.run(JOBS + name, **rest), asked)
            samples = run(given.rounds, spark, broker, asked)
        finally:
            spark.close()
    print(json.dumps(summary(given.records, samples), indent=1))
    return 0


def run(
    rounds: int, spark: WarmSpark, broker: RunningBroker, asked: Sources
) -> dict[str, list[Sample]]:
    """All reads, in alternation."""
    samples: dict[str, list[Sample]] = {name: [] for name in asked}
    for number in range(rounds):
        for name, source in asked.items():
            sample = measure(spark, broker, source)
            samples[name].append(sample)
            print(f"round {number + 1} {name:8} {sample}", flush=True)
    return samples


def summary(records: int, samples: dict[str, list[Sample]]) -> dict[str, Any]:
    """Medians, and how much faster the files are."""
    lines: dict[str, Any] = {
        name: {
            "records_per_s": round(records / statistics.median(s.wall_s for s in each)),
            "wall_s": round(statistics.median(s.wall_s for s in each), 2),
            "spark_cpu_s": round(statistics.median(s.spark_cpu_s for s in each), 2),
            "broker_cpu_s": round(statistics.median(s.broker_cpu_s for s in each), 2),
        }
        for name, each in samples.items()
    }
    kafka, segments = lines[KAFKA_SOURCE], lines[SEGMENTS]
    lines["times_faster"] = round(kafka["wall_s"] / segments["wall_s"], 2)
    lines["times_less_cpu"] = round(
        (kafka["spark_cpu_s"] + kafka["broker_cpu_s"]) / segments["spark_cpu_s"], 2
    )
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
