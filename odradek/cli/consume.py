"""`odradek consume`: prints the records of topics, with or without a consumer group."""

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import click

from .clients import CLIENT_ID, Cluster, cluster_options
from .commands import command
from .completion import complete_groups, complete_topics
from .errors import CommandError, no_such_topic
from .formats import VERBS, Message, Writer, parse_format, plain_lines
from .librdkafka import Reports, make_consumer, offsets_at, topics_of
from .options import Seconds, parse_headers, partitions_option
from .positions import Partition, Position, Range, choose_partitions, find_offsets, parse_range
from .progress import progress
from .reading import Filter, Goal, Reading
from .records import Headers, record_to_json
from .signals import EXIT_INTERRUPTED, interruptible
from .tables import count_of, discard_stdout

# Its queue once full, librdkafka fetches again only after this time: a second by default.
REFILL_MS: Final = 10
EXIT_TIMED_OUT: Final = 3
DEFAULTS: Final = {
    "group.id": CLIENT_ID,
    "isolation.level": "read_uncommitted",
    "fetch.queue.backoff.ms": REFILL_MS,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of which topics are read."""

    topics: tuple[str, ...]
    partitions: frozenset[int]
    range: Range
    group: str | None
    says_where: bool


@command()
@click.argument("topics", metavar="TOPIC…", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "-o",
    "--offset",
    "offsets",
    metavar="START[:STOP]",
    multiple=True,
    help="earliest, latest, an offset, +N (after the start), -N (the last N of each partition) or"
    " @TIME (milliseconds, ISO, or -3h); with a STOP up to there, exclusive: 5:9, -10:end,"
    " @-3h:-1h, @2026-01-31:2h.  Default: latest; earliest with --until or a STOP alone.",
)
@click.option("--from-beginning", is_flag=True, help="The same as -o earliest.")
@click.option(
    "--until",
    type=click.Choice(["now"]),
    help="Stop at the end of the log as it is when the command starts.",
)
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="The last N of each partition: -o -N:end."
)
@partitions_option
@click.option(
    "-g",
    "--group",
    metavar="ID",
    shell_complete=complete_groups,
    help="Read as a member of this group, from its offsets on, and commit what was printed.",
)
@click.option("-n", "--count", type=click.IntRange(0), help="Stop after this many records.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(),
    metavar="SECONDS",
    help="Stop after this time; exit code 3 if -n or a STOP was not reached.",
)
@click.option("--key", metavar="TEXT", help="Only records with this key.")
@click.option("--grep", metavar="REGEX", help="Only records whose value matches somewhere.")
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_headers,
    help="Only records with this header; may be repeated, and all must be there.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with everything.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Print KEY, TEXT, VALUE.")
@click.option(
    "-f",
    "--format",
    "record_format",
    metavar="FORMAT",
    help=f"Print this for each record: {VERBS}.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="Whether records of open and aborted transactions are shown.  Default: read_uncommitted.",
)
@cluster_options
def consume(
    cluster: Cluster,
    topics: tuple[str, ...],
    offsets: tuple[str, ...],
    from_beginning: bool,
    until: str | None,
    tail: int | None,
    partitions: tuple[int, ...],
    group: str | None,
    count: int | None,
    timeout_s: float | None,
    key: str | None,
    grep: str | None,
    headers: Headers,
    as_json: bool,
    key_separator: str | None,
    record_format: str | None,
    isolation: str | None,
) -> None:
    """Read records of TOPICs, and print their values, one on each line.

    A TOPIC that begins with ^ is a regular expression.  Standard output carries records only.
    Exit codes: 0 done, 1 failed, 3 timed out before -n or a STOP was reached, 130 interrupted
    before that.
    """
    write = _writer(as_json, key_separator, record_format)
    keep = _filter(key, grep, headers)
    where = _range(offsets, from_beginning, until, tail)
    if group is not None:
        _check_group_options(where, partitions)
    wanted = Wanted(topics, frozenset(partitions), where, group, bool(offsets or from_beginning))
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    reports = Reports()
    consumer = make_consumer(cluster, reports, own=_own(wanted, isolation), defaults=DEFAULTS)
    try:
        with interruptible() as stop:
            reading = Reading(
                consumer=consumer,
                reports=reports,
                goal=Goal(count, deadline_s=deadline_s),
                write=write,
                keep=keep,
                out=sys.stdout.buffer,
                commits=group is not None,
                stop=stop,
            )
            total = _begin(reading, wanted)
            code = _run(reading, total)
            if code == EXIT_TIMED_OUT:
                _say(f"not in {timeout_s:g} s: {_missing(reading.goal)}")
    finally:
        consumer.close()
    sys.exit(code)


def _own(wanted: Wanted, isolation: str | None) -> dict[str, object]:
    """The properties that the command line decides."""
    own: dict[str, object] = {
        "enable.auto.commit": wanted.group is not None,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
    }
    if isolation is not None:
        own["isolation.level"] = isolation
    if wanted.group is None:
        own["auto.offset.reset"] = "earliest"  # for an offset that is not in the log any more
        return own
    own["group.id"] = wanted.group
    if wanted.says_where or wanted.range.stop is not None:
        own["auto.offset.reset"] = wanted.range.start.kind
    return own


def _begin(reading: Reading, wanted: Wanted) -> int | None:
    """Assign or subscribe; returns how many records are there to read, if that is known."""
    goal, stops = reading.goal, wanted.range.stop is not None
    present = topics_of(reading.consumer)
    topics = _expand(wanted.topics, present)
    look_up = partial(offsets_at, reading.consumer, _choose(topics, wanted.partitions, present))
    if wanted.group is not None:
        if stops:
            found = find_offsets(look_up, wanted.range, _say)
            goal.stops = {p: at.stop or 0 for p, at in found.items()}
        reading.subscribe(topics)
        return goal.count
    offsets = find_offsets(look_up, wanted.range, _say)
    if stops:
        goal.stops = {p: at.stop or 0 for p, at in offsets.items()}
    reading.assign(offsets)
    if goal.stops is None:
        return goal.count
    total = sum(max(0, stop - offsets[p].start) for p, stop in goal.stops.items())
    return total if goal.count is None else min(total, goal.count)


def _run(reading: Reading, total: int | None) -> int:
    """Read until the goal, the deadline or a signal.  Returns the exit code."""
    goal = reading.goal
    try:
        with progress("records", total=total, wanted=not sys.stdout.isatty()) as advance:
            reading.run(advance)
    except BrokenPipeError:  # `consume | head`: the reader has seen enough
        discard_stdout()
        return 0
    except OSError as error:  # as of a full disk
        discard_stdout()
        raise CommandError(f"the records can't be written: {error.strerror}") from None
    if goal.reached or goal.endless:
        return 0
    return EXIT_INTERRUPTED if reading.stop.is_set() else EXIT_TIMED_OUT


def _missing(goal: Goal) -> str:
    if goal.count is not None:
        return f"{goal.written} of {goal.count} records"
    unread = count_of(len(goal.open_partitions), "partition")
    return f"{count_of(goal.written, 'record')}, and {unread} not read to the STOP"


def _choose(
    topics: Sequence[str], wanted: frozenset[int], present: dict[str, Any]
) -> list[Partition]:
    """The partitions that are asked for.  Raises: CommandError."""
    return [
        (topic, number)
        for topic in topics
        for number in choose_partitions(topic, present[topic].partitions, wanted)
    ]


def _expand(asked: Sequence[str], present: dict[str, Any]) -> list[str]:
    names: list[str] = []
    for name in asked:
        if name.startswith("^"):
            pattern = _pattern(name)
            matching = [topic for topic in sorted(present) if pattern.match(topic)]
            names += [t for t in matching if name.startswith("^__") or not t.startswith("__")]
        elif name in present:
            names.append(name)
        else:
            raise no_such_topic(name, present)
    if not names:
        raise CommandError(f"no topic matches {' '.join(asked)}")
    return list(dict.fromkeys(names))


def _range(
    offsets: tuple[str, ...], from_beginning: bool, until: str | None, tail: int | None
) -> Range:
    given = [*offsets, *(["earliest"] if from_beginning else [])]
    if tail is not None and given:
        raise click.UsageError("--tail says where to start: not with --offset or --from-beginning")
    if tail is not None:
        given.append(f"-{tail}:end")
    try:
        found = parse_range(given, now=datetime.now(UTC), default="earliest" if until else "latest")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--offset") from None
    if until is None or tail is not None:
        return found
    if found.stop is not None:
        raise click.UsageError("--until is a STOP, and --offset has another: give one of them")
    return Range(found.start, Position("latest"))


def _check_group_options(where: Range, partitions: tuple[int, ...]) -> None:
    if partitions:
        raise click.UsageError("-g: the group assigns the partitions, so -p cannot choose them")
    if where.start.kind not in ("earliest", "latest") or (
        where.stop is not None and where.stop.kind != "latest"
    ):
        raise click.UsageError(
            "-g reads from the group's offsets on: -o earliest and -o latest say where to start"
            " without any, and --until now stops; see `odradek groups reset-offsets`"
        )


def _writer(as_json: bool, key_separator: str | None, record_format: str | None) -> Writer:
    if as_json + (key_separator is not None) + (record_format is not None) > 1:
        raise click.UsageError("--json, --key-separator and --format exclude each other")
    if as_json:
        return lambda message: record_to_json(message).encode() + b"\n"
    if record_format is None:
        return plain_lines(key_separator)
    try:
        return parse_format(record_format)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _filter(key: str | None, grep: str | None, headers: Headers) -> Filter | None:
    """Whether a record is printed; None if all are."""
    if key is None and grep is None and not headers:
        return None
    wanted_key = None if key is None else key.encode()
    found = None if grep is None else _bytes_pattern(grep)

    def keep(message: Message) -> bool:
        if wanted_key is not None and message.key() != wanted_key:
            return False
        if found is not None and found.search(message.value() or b"") is None:
            return False
        there = message.headers() or ()
        return all(pair in there for pair in headers)

    return keep


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError) as error:
        raise CommandError(f"{text!r} is no regular expression: {error}") from None


def _bytes_pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except (re.error, OverflowError) as error:
        raise click.BadParameter(f"no regular expression: {error}", param_hint="--grep") from None


def _say(text: str) -> None:
    click.echo(text, err=True)
