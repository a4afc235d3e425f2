"""`python -m benchmarks.transactions`: transactions beside Apache Kafka.

One producer writes transactions of 1, 100 and 10,000 records of 100 bytes, to one broker and then
to the other: librdkafka's with version 1 of transactions, beside Kafka 3.9.2; Java's 4.3.1 with
version 2, beside Kafka 4.3.1.  Prints the medians over the rounds of transactions/s, and of the
median and the 99th percentile of one transaction in ms, each with the least and the greatest.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from tests.kafka.apache import apache_kafka

from .brokers import KAFKA_FLAGS, KAFKA_HEAP_MB
from .command_line import broker, spread
from .programs import run_java_file

SIZES: Final = {1: 300, 100: 150, 10_000: 12}
"""Records of a transaction -> transactions of a round."""
VALUE: Final = bytes(100)
VERSION_2: Final = 2
RELEASES: Final = {1: ("3.9.2", 0), VERSION_2: ("4.3.1", 2)}
"""Version of transactions -> Kafka's release, and `odradek.transaction.version`."""
TIMEOUT_S: Final = 60.0
# Kafka's own flags, but for the heap, which the test's command sets.
FLAGS: Final = [flag for flag in KAFKA_FLAGS if not flag.startswith(("-Xm", "-Dorg.slf4j"))]


class Round(NamedTuple):
    """What one round measured."""

    per_s: float
    p50_ms: float
    p99_ms: float


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transactions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--version", type=int, choices=RELEASES, default=1, help="of transactions")
    arguments = parser.parse_args()
    rounds: int = arguments.rounds
    release, setting = RELEASES[arguments.version]
    one_round = java_round if arguments.version == VERSION_2 else librdkafka_round
    with (
        tempfile.TemporaryDirectory() as directory,
        apache_kafka(release, heap_mb=KAFKA_HEAP_MB, jvm_options=FLAGS) as kafka,
        broker(Path(directory) / "data", f"odradek.transaction.version={setting}") as own,
    ):
        addresses = {"odradek": own, "kafka": kafka.bootstrap_servers}
        samples: dict[tuple[int, str], list[Round]] = {}
        for number in range(rounds + 1):
            for size, count in SIZES.items():
                for name, address in addresses.items():
                    measured = one_round(address, size, count)
                    if number:  # the first one warms up
                        samples.setdefault((size, name), []).append(measured)
    print(f"{'records':>8} {'':8}{'transactions/s':>24}{'p50 ms':>24}{'p99 ms':>24}")
    for (size, name), measured_rounds in samples.items():
        columns = zip(*measured_rounds, strict=True)
        print(f"{size:>8} {name:8}" + "".join(f"{spread(list(each)):>24}" for each in columns))
    for size in SIZES:
        both = zip(samples[size, "odradek"], samples[size, "kafka"], strict=True)
        ratio = statistics.median(ours.per_s / theirs.per_s for ours, theirs in both)
        print(f"{size:>8} ratio of transactions/s {ratio:.2f}")


def librdkafka_round(address: str, size: int, count: int) -> Round:
    """Write `count` transactions of `size` records."""
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": f"bench-{size}", "linger.ms": 0}
    )
    topic = f"transactions-{size}"
    producer.init_transactions(TIMEOUT_S)
    one_transaction(producer, topic, size)  # creates the topic
    ranked = sorted(one_transaction(producer, topic, size) for _ in range(count))
    p50_s, p99_s = statistics.median(ranked), ranked[int(0.99 * count)]
    return Round(per_s=count / sum(ranked), p50_ms=1000 * p50_s, p99_ms=1000 * p99_s)


def java_round(address: str, size: int, count: int) -> Round:
    """The same with Java's producer, in a JVM that has written as many before."""
    topic = f"transactions-{size}"
    arguments = (address, topic, f"bench-{size}", str(size), str(count))
    return Round(**run_java_file("TransactionTimes.java", *arguments))


def one_transaction(producer: Producer, topic: str, size: int) -> float:
    """How long it takes from its begin to its commit, in seconds."""
    begin_s = time.perf_counter()
    producer.begin_transaction()
    for number in range(size):
        producer.produce(topic, VALUE)
        if number % 1000 == 0:
            producer.poll(0)
    producer.commit_transaction(TIMEOUT_S)
    return time.perf_counter() - begin_s


if __name__ == "__main__":
    main()
