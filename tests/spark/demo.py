"""`make demo`: Odradek starts, Spark writes orders to it, streams them back and adds them up.

Everything is in a temporary directory and ends with the demo.  The exit code is 0 only if Spark's
table is what the orders add up to.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kafka.process import ServerFailed
from tests.spark.environment import RELEASES
from tests.spark.prepare import ConnectorMissing, fetch
from tests.spark.session import JobFailed, SparkSession
from tests.wire.servers import OdradekServer

SPARK = RELEASES["4.0"]
TOPIC = "orders"
PARTITIONS = 3
ORDER_COUNT = 50_000
CITIES = ("Prague", "Vienna", "Berlin", "Brno", "Zürau")  # as jobs/orders.py, which needs pyspark

Table = dict[str, tuple[int, int]]


def main() -> int:
    """Run the demo."""
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as directory:
        try:
            return run(Path(directory))
        except (ConnectorMissing, JobFailed, ServerFailed, subprocess.CalledProcessError) as error:
            print(f"\nthe demo failed: {error}", file=sys.stderr)
            return 1


def run(directory: Path) -> int:
    """The demo's steps, in a directory that is removed afterwards."""
    if not SPARK.connector_jars():
        step("Fetching Spark's Kafka connector (once)", lambda: fetch(SPARK))
    broker = OdradekServer(directory / "odradek")
    try:
        step("Starting Odradek", broker.start)
        print(f"    {broker.bootstrap_servers}, ready after {broker.startup_ms:.0f} ms")
        create_topic(broker)
        table = with_spark(directory, broker.bootstrap_servers)
        right = show_table(table)
        show_files(broker.data_dir)
        step("Stopping Odradek", broker.stop)
    finally:
        broker.close()
    return 0 if right else 1


def step(title: str, action: Callable[[], Any]) -> Any:
    """Say what is done, do it, say how long it took."""
    print(f"==> {title} ... ", end="", flush=True)
    start = time.monotonic()
    value = action()
    print(f"{time.monotonic() - start:.1f} s", flush=True)
    return value


def create_topic(broker: OdradekServer) -> None:
    """Create the topic as a user would."""
    command = [sys.executable, "-m", "odradek", "topics", "create", TOPIC]
    command += ["--partitions", str(PARTITIONS), "-b", broker.bootstrap_servers]
    step(
        f"odradek topics create {TOPIC} --partitions {PARTITIONS}",
        lambda: subprocess.run(command, check=True, capture_output=True),
    )


@contextmanager
def spark_session(directory: Path) -> Iterator[SparkSession]:
    """A Spark whose log goes to a file."""
    session = step(f"Starting Spark {SPARK.version}", lambda: SparkSession(SPARK, directory))
    try:
        yield session
    finally:
        session.close()


def with_spark(directory: Path, servers: str) -> list[dict[str, Any]]:
    """Write the orders and stream them back."""
    with spark_session(directory / "spark") as spark:
        step(
            f"Spark writes {ORDER_COUNT:,} orders to the topic",
            lambda: spark.run("orders.write", servers=servers, topic=TOPIC, count=ORDER_COUNT),
        )
        table: list[dict[str, Any]] = step(
            "Spark reads them back as a stream and adds them up",
            lambda: spark.run(
                "orders.add_up",
                servers=servers,
                topic=TOPIC,
                directory=str(directory / "checkpoint"),
            ),
        )
    return table


def expected() -> Table:
    """What the orders add up to, by plain arithmetic."""
    table: Table = {}
    for number in range(ORDER_COUNT):
        city = CITIES[number % len(CITIES)]
        orders, cents = table.get(city, (0, 0))
        table[city] = orders + 1, cents + 100 + number * 7919 % 10_000
    return table


def show_table(rows: list[dict[str, Any]]) -> bool:
    """Print Spark's table; whether it is right."""
    print(f"\n    {'city':10}{'orders':>10}{'revenue':>16}")
    for row in rows:
        print(f"    {row['city']:10}{row['orders']:>10,}{row['revenue_cents'] / 100:>16,.2f}")
    found = {row["city"]: (row["orders"], row["revenue_cents"]) for row in rows}
    batches = rows[0]["batches"] if rows else 0
    right = found == expected()
    print(f"\n    read in {batches} micro-batches; ", end="")
    print("every order counted once" if right else f"WRONG, expected {expected()}")
    return right


def show_files(data_dir: Path) -> None:
    """Print what the broker keeps: Kafka's own directory layout."""
    print("\n    what the broker's data directory holds:")
    for folder, _, names in sorted(os.walk(data_dir)):
        for name in sorted(names):
            path = Path(folder, name)
            print(f"    {path.stat().st_size:>12,}  {path.relative_to(data_dir)}")
    print()


if __name__ == "__main__":
    sys.exit(main())
