"""Topics whose records say where they belong: record n has key n, in partition n % 4."""

from typing import Final

from confluent_kafka import Producer

PARTITIONS: Final = 4
START_MS: Final = 1_767_225_600_000
"""2026-01-01, UTC."""
STEP_MS: Final = 10_000
VALUE_BYTES: Final = 100


def fill(servers: str, topic: str, count: int, *, first: int = 0) -> None:
    """Produce records `first` and on, ten seconds apart, to a topic with four partitions."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": "true",
            "linger.ms": "20",
            "queue.buffering.max.messages": str(2 * count + 1),
        }
    )
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=b"%d" % number,
            value=b"x" * VALUE_BYTES,
            partition=number % PARTITIONS,
            headers=[("n", b"%d" % number), ("none", None)],
            timestamp=START_MS + number * STEP_MS,
        )
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
