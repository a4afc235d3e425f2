"""`python -m tests.fuzz.beside_kafka`: how long a good client waits beside hostile frames.

The same seed attacks Odradek and Apache Kafka 3.9.2, one after the other. Kafka hangs up on much
that Odradek answers, so it gets fewer frames a second.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kafka.apache import apache_kafka
from tests.support.certificates import make_certificates
from tests.support.connections import HungUp

from .flood import flood
from .target import SETTINGS, GoodClient, attacked

KAFKA: Final = "3.9.2"
KAFKA_HEAP_MB: Final = 1024
WARM_UP: Final = 5_000
"""Records that are written and read first: Java compiles what runs often."""
IDLE: Final = 500
SHOWN: Final = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p98": 0.98, "p99": 0.99}


@contextmanager
def odradek() -> Iterator[int]:
    """A broker that is ready, and its port."""
    with tempfile.TemporaryDirectory() as directory:
        certificates = make_certificates(Path(directory) / "certificates")
        with attacked(Path(directory) / "broker", certificates) as target:
            yield target.plain_port


@contextmanager
def kafka() -> Iterator[int]:
    """Apache Kafka as it starts by default, and its port."""
    with apache_kafka(KAFKA, settings=SETTINGS, heap_mb=KAFKA_HEAP_MB, jvm_options=[]) as broker:
        yield broker.port


def shown(waits_ms: list[float]) -> str:
    """Of waits, what a reader wants to know."""
    ordered, count = sorted(waits_ms), len(waits_ms)
    found = [f"{name} {ordered[int(count * part)]:.2f}" for name, part in SHOWN.items()]
    return f"{', '.join(found)}, most {ordered[-1]:.1f} ms of {count}"


def compare(frames: int, seed: int) -> None:
    """Attack both, and print what the good client saw."""
    for name, broker in (("Odradek", odradek), (f"Apache Kafka {KAFKA}", kafka)):
        with broker() as port, GoodClient(port) as good:
            for _ in range(WARM_UP):
                good.work()
            good.waits_ms()
            good.work_with_pauses(IDLE)
            idle_ms = good.waits_ms()
            try:
                counts = flood(port, ["--seed", str(seed), "--count", str(frames)], good.work)
                said = f"{counts['frames'] / counts['seconds']:.0f} frames a second; {counts}"
            except (AssertionError, HungUp) as failed:
                said = f"the good client was served no more: {failed!r}"
            beside_ms = good.waits_ms()
        print(f"{name}: idle {shown(idle_ms)}")
        print(f"  beside hostile frames {shown(beside_ms)}")
        print(f"  in the second half {shown(beside_ms[len(beside_ms) // 2 :])}")
        print(f"  {said}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.beside_kafka", description=__doc__)
    parser.add_argument("--frames", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    compare(given.frames, given.seed)
