"""`odradek consume`: prints the records of a topic, without a consumer group."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import click

from .clients import Client, Cluster, cluster_options
from .errors import CommandError
from .positions import Position, parse_position, start_offsets
from .progress import progress
from .records import record_to_json

POLL_MS: Final = 500
EXIT_TIMED_OUT: Final = 3
EXIT_INTERRUPTED: Final = 130

Writer = Callable[[Any], bytes]


@dataclass(slots=True)
class Goal:
    """When to stop: after `count` records, at the `ends` of the partitions, at `deadline_s`."""

    count: int | None
    ends: dict[Any, int] | None
    deadline_s: float | None
    written: int = 0
    open_partitions: set[Any] = field(default_factory=set)

    @property
    def reached(self) -> bool:
        """Whether all requested records are written."""
        enough = self.count is not None and self.written >= self.count
        return enough or (self.ends is not None and not self.open_partitions)

    @property
    def endless(self) -> bool:
        """Whether only the user or the deadline ends it."""
        return self.count is None and self.ends is None

    def wait_ms(self) -> int:
        """How long the next poll may take; 0 once the time is up."""
        if self.deadline_s is None:
            return POLL_MS
        return min(POLL_MS, max(0, round((self.deadline_s - time.monotonic()) * 1000)))


@click.command()
@click.argument("topic")
@click.option(
    "-o",
    "--offset",
    metavar="WHERE",
    help="earliest, latest, an offset, -N (the last N of each partition) or @TIME (milliseconds,"
    " ISO, or -3h). Default: latest; earliest with --until.",
)
@click.option("--from-beginning", is_flag=True, help="The same as -o earliest.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option("-n", "--count", type=click.IntRange(0), help="Stop after so many records.")
@click.option(
    "--until", type=click.Choice(["now"]), help="Stop at what the partitions hold at the start."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Stop after this time; exit code 3 if -n or --until was not reached.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with everything.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Print KEY, TEXT, VALUE.")
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are shown.",
)
@cluster_options
def consume(
    cluster: Cluster,
    topic: str,
    offset: str | None,
    from_beginning: bool,
    partitions: tuple[int, ...],
    count: int | None,
    until: str | None,
    timeout_s: float | None,
    as_json: bool,
    key_separator: str | None,
    isolation: str,
) -> None:
    """Read records of TOPIC; values as they are, one a line, unless told otherwise.

    Standard output carries records only. Exit codes: 0 done, 1 failed, 3 timed out with fewer
    records than -n or --until asked for.
    """
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning is -o earliest: give one of them")
    if as_json and key_separator is not None:
        raise click.UsageError("--key-separator is for plain lines, not for --json")
    position = _position(offset, "earliest" if from_beginning or until else "latest")
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    write = _json_line if as_json else _plain_line(key_separator)
    with (
        _sigterm_as_interrupt(),
        cluster.consumer(
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
            isolation_level=isolation,
        ) as consumer,
    ):
        chosen = _choose(consumer, topic, partitions)
        starts = start_offsets(consumer, chosen, position, lambda text: click.echo(text, err=True))
        goal = Goal(count, consumer.end_offsets(chosen) if until else None, deadline_s)
        code = _run(consumer, starts, goal, write)
    sys.exit(code)


def _run(consumer: Client, starts: Mapping[Any, int], goal: Goal, write: Writer) -> int:
    """Assign the partitions and read until the goal, the deadline or an interrupt.

    Returns the exit code.
    """
    consumer.assign(list(starts))
    for partition, offset in starts.items():
        consumer.seek(partition, offset)
    ends = goal.ends or {}
    goal.open_partitions = {p for p, end in ends.items() if starts[p] < end}
    consumer.pause(*(ends.keys() - goal.open_partitions))
    total = goal.count if goal.ends is None else sum(max(0, ends[p] - starts[p]) for p in ends)
    try:
        with progress("records", total=total, wanted=not sys.stdout.isatty()) as advance:
            while not goal.reached:
                wait_ms = goal.wait_ms()
                advance(_step(consumer, goal, write, wait_ms))
                if wait_ms == 0 and not goal.reached:
                    return 0 if goal.endless else EXIT_TIMED_OUT
    except KeyboardInterrupt:
        return 0 if goal.endless else EXIT_INTERRUPTED
    except BrokenPipeError:  # `consume | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _step(consumer: Client, goal: Goal, write: Writer, wait_ms: int) -> int:
    """Write the records of one poll; returns how many."""
    left = None if goal.count is None else goal.count - goal.written
    polled = consumer.poll(timeout_ms=wait_ms, max_records=left)
    out = sys.stdout.buffer
    written = 0
    for partition, records in polled.items():
        end = None if goal.ends is None else goal.ends[partition]
        for record in records:
            if end is None or record.offset < end:
                out.write(write(record))
                written += 1
        if end is not None and records[-1].offset + 1 >= end:
            _close_partition(consumer, goal, partition)
    if not polled:
        _close_at_hidden_ends(consumer, goal)
    out.flush()
    goal.written += written
    return written


def _close_at_hidden_ends(consumer: Client, goal: Goal) -> None:
    """Close partitions whose last offsets are markers, or aborted or compacted records.

    Those move the position, but poll never returns them.
    """
    for partition in list(goal.open_partitions):
        position = consumer.position(partition)
        if goal.ends is not None and position is not None and position >= goal.ends[partition]:
            _close_partition(consumer, goal, partition)


def _close_partition(consumer: Client, goal: Goal, partition: Any) -> None:
    goal.open_partitions.discard(partition)
    consumer.pause(partition)


def _choose(consumer: Client, topic: str, wanted: tuple[int, ...]) -> list[Any]:
    from kafka import TopicPartition

    present = consumer.partitions_for_topic(topic)
    if not present:
        raise CommandError(f"there is no topic {topic!r}")
    if missing := set(wanted) - present:
        raise CommandError(f"{topic} has partitions 0 to {max(present)}, not {min(missing)}")
    return [TopicPartition(topic, number) for number in sorted(wanted or present)]


def _position(text: str | None, default: str) -> Position:
    try:
        return parse_position(text or default, now=datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--offset") from None


def _json_line(record: Any) -> bytes:
    return record_to_json(record).encode() + b"\n"


def _plain_line(key_separator: str | None) -> Writer:
    if key_separator is None:
        return lambda record: (record.value or b"") + b"\n"
    separator = key_separator.encode()
    return lambda record: (record.key or b"") + separator + (record.value or b"") + b"\n"


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the reading like Ctrl-C: what was read is written out."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
