"""`odradek pipeline generate`: writes a realistic load for demos and benchmarks."""

import time
from collections.abc import Callable
from typing import Final

import click

from odradek.pipeline.events import KINDS, START_MS, Shape
from odradek.pipeline.generate import (
    Load,
    Written,
    check_topic,
    generate_with_spark,
)
from odradek.pipeline.generate import generate as write
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.session import SparkOptions
from odradek.pipeline.session import start as start_spark
from odradek.pipeline.status_line import StatusLine, time_left
from odradek.pipeline.stop_signals import stop_signals
from odradek.pipeline.times import iso, parse_time

from .commands import command
from .pipeline_options import kafka_options, spark_options

SHARE: Final = click.FloatRange(0, 1)
USUAL: Final = Shape()
REDRAWN_EVERY_S: Final = 0.1


@command()
@click.option("--topic", required=True, metavar="T", help="The topic to write to.")
@click.option("--kind", type=click.Choice(list(KINDS)), default="orders", show_default=True)
@click.option(
    "--records",
    type=click.IntRange(1),
    metavar="N",
    help="The number of records. Default: until stopped.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="R",
    help="Records per second. Default: as fast as possible.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The same seed gives the same records."
)
@click.option(
    "--partitions", type=click.IntRange(1), metavar="N", help="Create the topic with N partitions."
)
@click.option(
    "--start",
    metavar="TIME|now",
    default=iso(START_MS),
    show_default=True,
    help="The time of the first event. `now` gives different records each time.",
)
@click.option(
    "--events-per-second",
    type=click.FloatRange(0, min_open=True),
    default=USUAL.events_per_second,
    show_default=True,
    metavar="E",
    help="Events per second of event time, however fast they are written.",
)
@click.option("--late", type=SHARE, default=USUAL.late, show_default=True, metavar="0-1")
@click.option("--duplicate", type=SHARE, default=USUAL.duplicate, show_default=True, metavar="0-1")
@click.option("--malformed", type=SHARE, default=USUAL.malformed, show_default=True, metavar="0-1")
@click.option(
    "--event-timestamps",
    is_flag=True,
    help="Use the event time as the record timestamp, not the time of writing.",
)
@kafka_options
@spark_options
def generate(
    topic: str,
    kind: str,
    records: int | None,
    rate: float | None,
    seed: int,
    partitions: int | None,
    start: str,
    events_per_second: float,
    late: float,
    duplicate: float,
    malformed: float,
    event_timestamps: bool,
    kafka: Kafka,
    spark: SparkOptions,
) -> None:
    """Write orders, clicks or sensor readings, some of them late, repeated or malformed.

    The same options generate the same keys, values and headers, byte for byte. One producer writes
    them in order; with --master Spark writes them in parallel, in no order.
    """
    if (spark.conf or spark.jars) and spark.master is None:
        raise click.UsageError("--conf and --jars are of use with --master only")
    if event_timestamps and spark.master is not None:
        raise click.UsageError("Spark's Kafka sink sets no timestamps: no --event-timestamps here")
    if late + duplicate + malformed > 1:
        raise click.UsageError("--late, --duplicate and --malformed are more than 1 together")
    start_ms = int(time.time() * 1000) if start == "now" else parse_time(start, "--start")
    shape = Shape(start_ms, events_per_second, late, duplicate, malformed)
    load = Load(topic, kind, seed, records, rate, shape, event_timestamps)
    check_topic(kafka, topic, partitions)
    # Before signals are caught: a job that is stopped here must fail, as it has written nothing.
    session = None if spark.master is None else start_spark("odradek generate", spark)
    with stop_signals() as stop, StatusLine() as line:
        meter = Meter(load, line)
        if session is None:
            written = write(load, kafka, stop, meter)
        else:
            written = generate_with_spark(load, kafka, session, stop, meter)
        meter.show()
    click.echo(summary(load, written))


class Meter:
    """Shows how much of a load is written; called with the size of each step."""

    def __init__(
        self, load: Load, line: StatusLine, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._line = line
        self._clock = clock
        self._records = 0
        self._began_s = self._shown_s = clock()

    def __call__(self, step: int) -> None:
        """Count more written records; redraw the line if that is due."""
        self._records += step
        if self._clock() - self._shown_s >= REDRAWN_EVERY_S:
            self.show()

    def show(self) -> None:
        """Redraw the line."""
        self._shown_s = self._clock()
        elapsed_s = self._shown_s - self._began_s
        total, left = "", ""
        if self._load.records is not None:
            total = f" of {self._load.records:,}"
            left = time_left(self._records / self._load.records, elapsed_s)
        rate = self._records / max(elapsed_s, 1e-9)
        self._line.show(
            f"{self._load.kind} to {self._load.topic}: {self._records:,}{total} records,"
            f" {rate:,.0f}/s{left}"
        )


def summary(load: Load, written: Written) -> str:
    """The result in one line."""
    rate = written.records / written.elapsed_s if written.elapsed_s else 0
    text = (
        f"{written.records:,} {load.kind} in {written.elapsed_s:.1f} s ({rate:,.0f}/s)"
        f" to {load.topic}"
    )
    if not written.faults:
        return text
    faults = written.faults
    return (
        f"{text}: {faults['late']:,} late, {faults['duplicate']:,} repeated,"
        f" {faults['malformed']:,} malformed"
    )
