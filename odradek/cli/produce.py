"""`odradek produce`: writes records from standard input, or one from the command line."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, Final

import click

from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_topics
from .errors import CommandError
from .formats import Message, Writer, parse_format
from .librdkafka import KafkaError, Producer, Reports, make_producer, sentence
from .options import parse_pairs
from .progress import Advance, progress
from .records import Headers, Outgoing, record_from_json

UNACKNOWLEDGED_KIBIBYTES_MAX: Final = 32 << 10
UNACKNOWLEDGED_RECORDS_MAX: Final = 100_000
RECORD_BYTES_MAX: Final = 32 << 20
LINGER_MS: Final = 5
# How long the metadata of a topic that is created by writing to it may take to arrive.
NEW_TOPIC_MS: Final = 5000
POLL_S: Final = 0.1
# Records that were acknowledged do not end a poll unless they are printed.
FULL_QUEUE_POLL_S: Final = 0.005
RECORDS_PER_POLL: Final = 1000
# Of one record from the command line it is said where it is.
ONE_RECORD: Final = "%t partition %p offset %o\\n"
ONE_UNANSWERED: Final = "%t partition %p, offset unknown with acks=0\\n"


class BadLine(CommandError):
    """A line of input that is no record."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line of input becomes a record."""

    as_json: bool
    key_separator: bytes | None
    key: bytes | None
    headers: Headers

    @property
    def is_plain(self) -> bool:
        """Whether a line is a value as it is."""
        return not self.as_json and self.key_separator is None

    def record(self, line: bytes) -> Outgoing:
        """The record in a line, given without its newline.  Raises: ValueError with a sentence."""
        if self.as_json:
            return record_from_json(line)
        key, value = self.key, line
        if self.key_separator is not None:
            key, separator, value = line.partition(self.key_separator)
            if not separator:
                raise ValueError(f"has no key separator {self.key_separator.decode()!r}")
        return Outgoing(key, value, self.headers)


@command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("--json", "as_json", is_flag=True, help="Lines as `consume --json` prints them.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Each line is KEY, TEXT, VALUE.")
@click.option("-k", "--key", metavar="TEXT", help="The key of every record.")
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="A header of every record; may be repeated.",
)
@click.option("--value", metavar="TEXT", help="Write this one record, read no input.")
@click.option(
    "-p",
    "--partition",
    metavar="N|any",
    default=None,
    help="Where to write. Default: as the JSON line says, else by key; `any`: always by key.",
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="How batches are compressed.  Default: none.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    help="all: idempotent, in order, none lost or doubled.  Default: all.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up on a record that is not acknowledged by then.",
)
@click.option(
    "-f",
    "--format",
    "record_format",
    metavar="FORMAT",
    help="Print this for each acknowledged record, such as '%p %o\\\\n'; see `consume --help`."
    "  Default: where the record of --value is.",
)
@cluster_options
def produce(
    cluster: Cluster,
    topic: str,
    as_json: bool,
    key_separator: str | None,
    key: str | None,
    headers: dict[str, str],
    value: str | None,
    partition: str | None,
    compression: str | None,
    acks: str | None,
    timeout_s: float,
    record_format: str | None,
) -> None:
    """Write records to TOPIC, one for each line of standard input.

    Lines are text, or JSON objects with --json: `consume --json` prints what `produce --json`
    reads, with keys, headers, nulls, times and partitions.
    """
    if as_json and (key_separator or key or headers or value is not None):
        raise click.UsageError("--json lines say key, headers and value themselves")
    if key_separator is not None and (key is not None or value is not None or not key_separator):
        raise click.UsageError("--key-separator splits lines: not with --key or --value")
    place = _parse_partition(partition)
    line_format = LineFormat(
        as_json=as_json,
        key_separator=None if key_separator is None else key_separator.encode(),
        key=None if key is None else key.encode(),
        headers=[(name, text.encode()) for name, text in headers.items()],
    )
    records = (
        _records(sys.stdin.buffer, line_format)
        if value is None
        else iter([Outgoing(line_format.key, value.encode(), line_format.headers)])
    )
    wanted_acks = acks or cluster.properties.get("acks", "all")
    if record_format is None and value is not None:
        record_format = ONE_UNANSWERED if wanted_acks == "0" else ONE_RECORD
    answers = _Answers(topic, _report(record_format))
    producer = make_producer(
        cluster,
        answers.reports,
        own=_own_settings(acks, compression, timeout_s, answers),
        defaults={
            **DEFAULTS,
            "enable.idempotence": wanted_acks in ("all", "-1"),
        },
    )
    with progress("records", total=None, wanted=not sys.stdin.isatty()) as advance:
        try:
            _send_all(producer, answers, _placed(records, place), advance)
        except BadLine:  # records read before it are still delivered
            _finish(producer, answers)
            raise
        _finish(producer, answers)


DEFAULTS: Final = {
    "acks": "all",
    "partitioner": "murmur2_random",  # as Java's producer
    "linger.ms": LINGER_MS,
    "message.max.bytes": RECORD_BYTES_MAX,
    "queue.buffering.max.kbytes": UNACKNOWLEDGED_KIBIBYTES_MAX,
    "queue.buffering.max.messages": UNACKNOWLEDGED_RECORDS_MAX,
    "topic.metadata.propagation.max.ms": NEW_TOPIC_MS,
}


class _Answers:
    """What becomes of the records that were sent."""

    def __init__(self, topic: str, report: Writer | None) -> None:
        self.topic = topic
        self.report = report
        self.reports = Reports()
        self._failure: str | None = None
        self._acknowledged: list[Message] = []

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take one answer.

        librdkafka calls it from within poll and flush, which an exception in here would break.
        """
        if error is not None:
            self._failure = self._failure or self.sentence(error, message.partition())
        elif self.report is not None:
            self._acknowledged.append(message)

    def check(self) -> None:
        """Print what was acknowledged.  Raises: CommandError, if a record was not written."""
        if self.report is not None and self._acknowledged:
            sys.stdout.buffer.write(b"".join(map(self.report, self._acknowledged)))
            sys.stdout.buffer.flush()
            self._acknowledged.clear()
        if self._failure is not None:
            raise CommandError(self._failure)
        self.reports.check()

    def sentence(self, error: KafkaError, partition: int) -> str:
        """What an answer says."""
        code = error.code()
        if code in (error._UNKNOWN_TOPIC, error.UNKNOWN_TOPIC_OR_PART):
            return f"there is no topic {self.topic!r}"
        if code == error._UNKNOWN_PARTITION:
            return f"{self.topic} has no partition {partition}: -p any places records by key"
        if code == error.TOPIC_EXCEPTION:
            return f"{self.topic!r} is no name of a topic: letters, digits, '.', '_' and '-' are"
        if code == error._MSG_TIMED_OUT:
            return "a record was not acknowledged in time: see --timeout"
        return sentence(error)


def _own_settings(
    acks: str | None, compression: str | None, timeout_s: float, answers: _Answers
) -> dict[str, object]:
    settings: dict[str, object] = {
        "delivery.report.only.error": answers.report is None,
        "message.timeout.ms": int(timeout_s * 1000),
        "on_delivery": answers.delivered,
    }
    if acks is not None:
        settings["acks"] = acks
    if compression is not None:
        settings["compression.type"] = compression
    return settings


def _send_all(
    producer: Producer, answers: _Answers, records: Iterator[Outgoing], advance: Advance
) -> None:
    """Send records, and wait whenever too much is unacknowledged.  Raises: CommandError."""
    from confluent_kafka import KafkaException

    topic, produce = answers.topic, producer.produce
    size_bytes = 0
    for number, record in enumerate(records, 1):
        fields: dict[str, Any] = {"headers": record.headers} if record.headers else {}
        if record.partition is not None:
            fields["partition"] = record.partition
        if record.timestamp_ms is not None:
            fields["timestamp"] = record.timestamp_ms
        while True:
            try:
                produce(topic, record.value, record.key, **fields)
                break
            except BufferError:
                producer.poll(FULL_QUEUE_POLL_S)
                answers.check()
            except KafkaException as error:
                raise CommandError(
                    answers.sentence(error.args[0], fields.get("partition", -1))
                ) from None
        size_bytes += len(record.value or b"")
        if number % RECORDS_PER_POLL == 0:
            producer.poll(0)
            answers.check()
            advance(RECORDS_PER_POLL, size_bytes)
            size_bytes = 0


def _finish(producer: Producer, answers: _Answers) -> None:
    """Return when all records are acknowledged.  Raises: CommandError."""
    while producer.flush(POLL_S):
        answers.check()
    answers.check()


def _records(lines: IO[bytes], line_format: LineFormat) -> Iterator[Outgoing]:
    if line_format.is_plain:  # any line is a record: a third faster
        key, headers = line_format.key, line_format.headers
        return (Outgoing(key, line.removesuffix(b"\n"), headers) for line in lines)
    return _parsed_records(lines, line_format)


def _parsed_records(lines: IO[bytes], line_format: LineFormat) -> Iterator[Outgoing]:
    for number, line in enumerate(lines, 1):
        try:
            yield line_format.record(line.removesuffix(b"\n"))
        except ValueError as error:
            raise BadLine(f"line {number}: {error}") from None


def _report(record_format: str | None) -> Writer | None:
    """What is printed for an acknowledged record; None if nothing is."""
    if record_format is None:
        return None
    try:
        # librdkafka's answers do not carry headers.
        return parse_format(record_format, without="h")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _parse_partition(text: str | None) -> int | str | None:
    if text is None or text == "any":
        return text
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(
            f"{text!r} is neither a number nor `any`", param_hint="--partition"
        )
    return int(text)


def _placed(records: Iterator[Outgoing], place: int | str | None) -> Iterator[Outgoing]:
    """The records with the partition that the command line specifies."""
    if place is None:
        return records
    partition = None if isinstance(place, str) else place
    return (replace(record, partition=partition) for record in records)
