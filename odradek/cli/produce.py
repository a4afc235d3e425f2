"""`odradek produce`: writes records from standard input, or one from the command line."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import click

from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_topics
from .delivery import Delivery, Refused
from .formats import Writer, parse_format
from .input_lines import lines_of
from .librdkafka import make_producer
from .options import PARTITION_LAST, Seconds, parse_headers
from .progress import progress
from .records import Headers, Outgoing, record_from_json
from .signals import EXIT_INTERRUPTED, interruptible

UNACKNOWLEDGED_KIBIBYTES_MAX: Final = 32 << 10
UNACKNOWLEDGED_RECORDS_MAX: Final = 100_000
RECORD_BYTES_MAX: Final = 32 << 20
LINGER_MS: Final = 5
# How long the metadata of a topic that is created by writing to it may take to arrive.
NEW_TOPIC_MS: Final = 5000
IN_FLIGHT_MAX: Final = "max.in.flight.requests.per.connection"
IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
DEFAULTS: Final = {
    "acks": "all",
    "partitioner": "murmur2_random",  # as Java's producer
    "linger.ms": LINGER_MS,
    "message.max.bytes": RECORD_BYTES_MAX,
    "queue.buffering.max.kbytes": UNACKNOWLEDGED_KIBIBYTES_MAX,
    "queue.buffering.max.messages": UNACKNOWLEDGED_RECORDS_MAX,
    "topic.metadata.propagation.max.ms": NEW_TOPIC_MS,
}
# Of one record from the command line it is said where it is.
ONE_RECORD: Final = "%t partition %p offset %o\\n"
ONE_UNANSWERED: Final = "%t partition %p, offset unknown with acks=0\\n"


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
    callback=parse_headers,
    help="A header of every record; may be repeated.",
)
@click.option("--value", metavar="TEXT", help="Write only this record, and read no input.")
@click.option(
    "-p",
    "--partition",
    metavar="N|any",
    default=None,
    help="The partition. Default: that of the JSON line, else chosen by the key; `any`: always "
    "by the key.",
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
    help="all: idempotent, in order, none lost or duplicated.  Default: all.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(0.1),
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
    "  Default: partition and offset with --value, else nothing.",
)
@cluster_options
def produce(
    cluster: Cluster,
    topic: str,
    as_json: bool,
    key_separator: str | None,
    key: str | None,
    headers: Headers,
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
    one = [key_separator, key, value]
    if as_json and (headers or any(given is not None for given in one)):
        raise click.UsageError("--json lines say key, headers and value themselves")
    if key_separator is not None and (key is not None or value is not None):
        raise click.UsageError("--key-separator splits lines: not with --key or --value")
    if key_separator == "":
        raise click.BadParameter("an empty text splits nothing", param_hint="--key-separator")
    place = _parse_partition(partition)
    line_format = LineFormat(
        as_json=as_json,
        key_separator=None if key_separator is None else key_separator.encode(),
        key=None if key is None else key.encode(),
        headers=headers,
    )
    wanted_acks = acks or cluster.properties.get("acks", "all")
    if record_format is None and value is not None:
        record_format = ONE_UNANSWERED if wanted_acks == "0" else ONE_RECORD
    delivery = Delivery(topic, _report(record_format))
    own: dict[str, object] = {
        "delivery.report.only.error": delivery.report is None,
        "message.timeout.ms": int(timeout_s * 1000),
        "on_delivery": delivery.delivered,
    }
    if acks is not None:
        own["acks"] = acks
    if compression is not None:
        own["compression.type"] = compression
    delivery.begin(
        make_producer(
            cluster,
            delivery.reports,
            own=own,
            defaults={**DEFAULTS, **_idempotence(cluster, wanted_acks)},
        )
    )
    with (
        progress("records", total=None, wanted=not sys.stdin.isatty()) as advance,
        interruptible() as stop,
    ):
        lines: Iterable[bytes | None] = [(value or "").encode()]
        if value is None:
            lines = lines_of(sys.stdin.buffer, stop, line_bytes_max=RECORD_BYTES_MAX)
        records = _records(lines, line_format)
        try:
            delivery.send(_placed(records, place), advance)
        except Refused:  # records read before it are still delivered
            delivery.finish()
            raise
        delivery.finish()
        if stop.is_set():
            sys.exit(EXIT_INTERRUPTED)


def _idempotence(cluster: Cluster, acks: str) -> dict[str, object]:
    """As Java's producer: idempotent unless other properties speak against it.

    Without gaps: what follows a record that was not written is not written either.
    """
    in_flight = cluster.properties.get(IN_FLIGHT_MAX, "1")
    few = in_flight.isdecimal() and int(in_flight) <= IDEMPOTENT_IN_FLIGHT_MAX
    wanted = cluster.properties.get("enable.idempotence", str(acks in ("all", "-1") and few))
    on = wanted.lower() == "true"
    return {"enable.idempotence": on, "enable.gapless.guarantee": on}


def _records(lines: Iterable[bytes | None], line_format: LineFormat) -> Iterator[Outgoing | None]:
    number = 0
    key, headers, is_plain = line_format.key, line_format.headers, line_format.is_plain
    try:
        for line in lines:
            if line is None:
                yield None
                continue
            number += 1
            yield Outgoing(key, line, headers) if is_plain else line_format.record(line)
    except ValueError as error:
        raise Refused(f"line {number}: {error}") from None


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
    if int(text) > PARTITION_LAST:
        raise click.BadParameter(f"{text} is too large", param_hint="--partition")
    return int(text)


def _placed(
    records: Iterable[Outgoing | None], place: int | str | None
) -> Iterable[Outgoing | None]:
    """The records with the partition that the command line specifies."""
    if place is None:
        return records
    partition = None if isinstance(place, str) else place
    return (record and replace(record, partition=partition) for record in records)
