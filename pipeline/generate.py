"""A realistic load for demos and benchmarks, written to a topic at a given rate.

Without Spark, a single producer writes all events in order. With Spark, each task generates its own
part and writes it as fast as the cluster accepts it: the same records, but in no fixed order.
"""

import itertools
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import PipelineError
from .events import BLOCK_EVENTS, Event, Shape, block, events
from .kafka import Kafka, sentence
from .kafka_source import source_options
from .properties import client_settings
from .spark_types import DataFrame, SparkSession

UNACKNOWLEDGED_MAX: Final = 10_000
DELIVERY_TIMEOUT_MS: Final = 60_000
BATCH_BYTES: Final = 128 << 10
LINGER_MS: Final = 5
SPAN_EVENTS: Final = 100 * BLOCK_EVENTS
"""The most events that Spark writes at once, and the number if no rate is given."""

# kafka-python has no types of its own.
Producer = Any
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Load:
    """What to write."""

    topic: str
    kind: str
    """One of events.KINDS."""
    seed: int
    records: int | None
    """None: write until stopped."""
    rate: float | None
    """Records per second; None: as fast as the cluster accepts them."""
    shape: Shape
    event_timestamps: bool = False
    """Whether a record's timestamp is the event time instead of the time of writing."""


@dataclass(slots=True)
class Written:
    """What was written and acknowledged."""

    records: int = 0
    elapsed_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    """Records by `Event.fault`; not counted with Spark."""


def check_topic(kafka: Kafka, topic: str, partitions: int | None) -> None:
    """Check that the topic exists; if `partitions` is given, create it where it does not.

    Raises: PipelineError, also if the topic has another number of partitions.
    """
    if partitions is not None and not kafka.exists(topic):
        kafka.create_topic(topic, partitions)
    there = kafka.partitions(topic)
    if partitions is not None and there != partitions:
        raise PipelineError(
            f"topic {topic} is there already, with {there} partitions, not {partitions}"
        )


def generate(load: Load, kafka: Kafka, stop: threading.Event, advance: Advance) -> Written:
    """Write until all records are written or `stop` is set.  Raises: PipelineError."""
    import kafka as kafka_python
    import kafka.errors as kafka_errors

    try:
        producer = kafka_python.KafkaProducer(**_settings(kafka))
        try:
            return _produce(load, producer, stop, advance)
        finally:
            producer.close(timeout=DELIVERY_TIMEOUT_MS / 1000)
    except kafka_errors.KafkaError as error:
        raise PipelineError(
            f"topic {load.topic} at {kafka.bootstrap_servers} takes no more records:"
            f" {sentence(error)}"
        ) from error


def generate_with_spark(
    load: Load, kafka: Kafka, spark: SparkSession, stop: threading.Event, advance: Advance
) -> Written:
    """Write with Spark's Kafka sink; the executors need this package.  Raises: PipelineError."""
    sink = {**source_options(kafka), "topic": load.topic, "includeHeaders": "true"}
    done, began_s = Written(), time.monotonic()
    for first, end in spans(load):
        if _waited(stop, first, load.rate, began_s):
            break
        records = _rows(spark, load, first, end)
        records.write.format("kafka").options(**sink).save()
        done.records = end
        advance(end - first)
    done.elapsed_s = time.monotonic() - began_s
    return done


def spans(load: Load) -> Iterator[tuple[int, int]]:
    """The half-open ranges of indexes that Spark writes at once: at most a second's worth each."""
    size = SPAN_EVENTS if load.rate is None else min(SPAN_EVENTS, max(1, math.ceil(load.rate)))
    for first in itertools.count(0, size):
        end = first + size if load.records is None else min(first + size, load.records)
        if first >= end:
            return
        yield first, end


def events_between(load: Load, first: int, end: int) -> Iterator[Event]:
    """The events with indexes in [first, end), generated independently of all others."""
    for number in range(first // BLOCK_EVENTS, math.ceil(end / BLOCK_EVENTS)):
        made = block(load.kind, load.seed, number, load.shape)
        begin = number * BLOCK_EVENTS
        yield from made[max(0, first - begin) : max(0, end - begin)]


def _settings(kafka: Kafka) -> dict[str, object]:
    return {
        "client_id": "odradek-generate",
        "acks": "all",
        "enable_idempotence": True,
        "linger_ms": LINGER_MS,
        "batch_size": BATCH_BYTES,
        "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
        "max_block_ms": DELIVERY_TIMEOUT_MS,
        "metrics_enabled": False,
        **client_settings(kafka.bootstrap_servers, kafka.properties),
    }


def _produce(load: Load, producer: Producer, stop: threading.Event, advance: Advance) -> Written:
    done, began_s = Written(), time.monotonic()
    # The producer's own buffer is unbounded.
    waiting: deque[tuple[Any, Event]] = deque()
    for index, event in enumerate(events(load.kind, load.seed, load.records, load.shape)):
        if _waited(stop, index, load.rate, began_s):
            break
        waiting.append((_send(load, producer, event), event))
        while waiting and (len(waiting) > UNACKNOWLEDGED_MAX or waiting[0][0].is_done):
            _acknowledged(waiting, done)
        advance(1)
    producer.flush(timeout=DELIVERY_TIMEOUT_MS / 1000)
    while waiting:
        _acknowledged(waiting, done)
    done.elapsed_s = time.monotonic() - began_s
    return done


def _send(load: Load, producer: Producer, event: Event) -> Any:
    return producer.send(
        load.topic,
        key=event.key,
        value=event.value,
        headers=list(event.headers),
        timestamp_ms=event.time_ms if load.event_timestamps else None,
    )


def _acknowledged(waiting: deque[tuple[Any, Event]], done: Written) -> None:
    future, event = waiting.popleft()
    future.get(timeout=DELIVERY_TIMEOUT_MS / 1000)
    done.records += 1
    done.faults[event.fault] += 1


def _waited(stop: threading.Event, index: int, rate: float | None, began_s: float) -> bool:
    """Wait until the event at `index` is due; returns whether to stop."""
    if rate is None:
        return stop.is_set()
    ahead_s = index / rate - (time.monotonic() - began_s)
    return stop.wait(ahead_s) if ahead_s > 0 else stop.is_set()


def _rows(spark: SparkSession, load: Load, first: int, end: int) -> DataFrame:
    """The events with indexes in [first, end) as a DataFrame, generated on the executors."""
    tasks = min(spark.sparkContext.defaultParallelism, math.ceil((end - first) / BLOCK_EVENTS))
    size = math.ceil((end - first) / tasks)
    parts = [(at, min(at + size, end)) for at in range(first, end, size)]

    def rows(part: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
        for event in events_between(load, *part):
            yield event.key, event.value, list(event.headers)

    made = spark.sparkContext.parallelize(parts, len(parts)).flatMap(rows)
    columns = "key binary, value binary, headers array<struct<key:string,value:binary>>"
    return spark.createDataFrame(made, columns)
