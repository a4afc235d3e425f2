"""`python -m benchmarks.flush`: an fsync before every answer, beside Apache Kafka 3.9.2.

One-record Produce to one partition with flush.messages=1, acks=all, on 1, 8 and 32 connections,
each with one request in flight. Kafka syncs log and indexes for each request; here one fsync of the
log covers all that came before it began. The brokers take turns; medians of the rounds.
"""

import argparse
import itertools
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.kafka.apache import apache_kafka
from tests.kafka.jars import JarsMissing

from . import topics
from .brokers import start_odradek
from .connection import Address
from .programs import run_python

VERSION: Final = "3.9.2"
CONNECTIONS: Final = (1, 8, 32)
EACH: Final = {"flush.messages": "1"}
Rates = dict[tuple[str, int], list[float]]


def measure(brokers: dict[str, Address], rounds: int, seconds: float) -> Rates:
    """Requests per second of each broker and number of connections; the first round warms up."""
    rates: Rates = {(name, count): [] for name in brokers for count in CONNECTIONS}
    numbers = itertools.count(1)
    for number in range(rounds + 1):
        for count, (name, address) in itertools.product(CONNECTIONS, brokers.items()):
            topic = topics.create(address, f"flushed-{next(numbers)}", configs=EACH)
            rate = run_python(
                "flushed_produce",
                *("--address", str(address)),
                *("--topic", topic.name),
                *("--connections", str(count)),
                *("--seconds", str(seconds)),
            )["rate"]
            topics.delete(address, topic.name)
            os.sync()
            if number:
                rates[name, count].append(rate)
    return rates


def main(arguments: list[str]) -> int:
    """Print a line for each number of connections."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flush", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--directory", type=Path, help="where the brokers' files go meanwhile")
    given = parser.parse_args(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="odradek-flush-", dir=given.directory) as home,
            apache_kafka(
                VERSION, directory=Path(home) / "kafka", heap_mb=1024, jvm_options=()
            ) as kafka,
        ):
            odradek = start_odradek(Path(home) / "odradek")
            try:
                brokers = {
                    "kafka": Address.parse(kafka.bootstrap_servers),
                    "odradek": odradek.address,
                }
                rates = measure(brokers, given.rounds, given.seconds)
            finally:
                odradek.stop()
    except JarsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(f"an fsync before every answer, {VERSION}: requests per second (min to max)")
    for count in CONNECTIONS:
        ours, theirs = rates["odradek", count], rates["kafka", count]
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(f"{count:3} connections: odradek {_show(ours)}, kafka {_show(theirs)}, {ratio:.2f}x")
    return 0


def _show(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
