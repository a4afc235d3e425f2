"""`odradek produce`: writes records from standard input, or one from the command line."""

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, Final

import click

from .clients import Client, Cluster, cluster_options, sentence
from .errors import CommandError
from .options import parse_pairs
from .progress import progress
from .records import Headers, Outgoing, record_from_json

UNACKNOWLEDGED_BYTES_MAX: Final = 32 << 20
RECORD_OVERHEAD_BYTES: Final = 512
BATCH_BYTES: Final = 128 << 10
REQUEST_BYTES_MAX: Final = 32 << 20
LINGER_MS: Final = 5


class BadLine(CommandError):
    """A line of input that is no record."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line of input becomes a record."""

    as_json: bool
    key_separator: bytes | None
    key: bytes | None
    headers: Headers

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


@click.command()
@click.argument("topic")
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
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="all: idempotent, in order, none lost or doubled.",
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
    compression: str,
    acks: str,
    timeout_s: float,
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
    with cluster.producer(**_producer_settings(acks, compression, timeout_s)) as producer:
        delivery = _Delivery(producer, topic, timeout_s)
        with progress("records", total=None, wanted=not sys.stdin.isatty()) as advance:
            try:
                for record in records:
                    delivery.send(_placed(record, place))
                    advance(1)
            except BadLine:  # records read before it are still delivered
                delivery.finish()
                raise
            delivery.finish()


def _producer_settings(acks: str, compression: str, timeout_s: float) -> dict[str, object]:
    timeout_ms = int(timeout_s * 1000)
    return {
        "acks": "all" if acks == "all" else int(acks),
        "enable_idempotence": acks == "all",
        "compression_type": None if compression == "none" else compression,
        "value_serializer": _whole_record_serializer(),
        "batch_size": BATCH_BYTES,
        "max_request_size": REQUEST_BYTES_MAX,
        "linger_ms": LINGER_MS,
        "max_block_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms + LINGER_MS,
        "request_timeout_ms": timeout_ms,
    }


class _Delivery:
    """Sends records and limits the bytes that are not acknowledged yet.

    kafka-python's own buffer is unbounded: a file larger than memory would end up in it.
    """

    def __init__(self, producer: Client, topic: str, timeout_s: float) -> None:
        self._producer = producer
        self._topic = topic
        self._timeout_s = timeout_s
        self._unacknowledged: deque[tuple[Any, int]] = deque()
        self._unacknowledged_bytes = 0

    def send(self, record: Outgoing) -> None:
        """Send a record, and wait if too much is unacknowledged.

        Raises: CommandError, also for a record sent before.
        """
        try:
            future = self._producer.send(
                self._topic,
                value=record,
                headers=_NullableHeaders(),
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (ValueError, TypeError, AssertionError) as error:
            raise CommandError(sentence(error)) from error
        size_bytes = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        self._unacknowledged.append((future, size_bytes))
        self._unacknowledged_bytes += size_bytes
        while self._unacknowledged and self._unacknowledged[0][0].is_done:
            self._await_oldest()
        while self._unacknowledged_bytes > UNACKNOWLEDGED_BYTES_MAX:
            self._await_oldest()

    def finish(self) -> None:
        """Return when all records are acknowledged.  Raises: CommandError."""
        self._producer.flush(timeout=self._timeout_s)
        while self._unacknowledged:
            self._await_oldest()

    def _await_oldest(self) -> None:
        future, size_bytes = self._unacknowledged.popleft()
        self._unacknowledged_bytes -= size_bytes
        future.get(timeout=self._timeout_s)


class _NullableHeaders(list[tuple[str, bytes | None]]):
    """Headers whose values may be null.

    kafka-python's encoder writes null values, but the sum of sizes that it reports to the sender
    takes their len().  It skips that sum if the headers are falsy.
    """

    def __bool__(self) -> bool:
        return False


def _whole_record_serializer() -> object:
    """Let null keys with null values and null header values through.

    KafkaProducer.send() refuses both before it calls the serializer, though Kafka accepts them. So
    its value is the whole record, which the serializer unpacks; it may also change headers.
    """
    from kafka.serializer import Serializer

    class WholeRecord(Serializer):  # type: ignore[misc]  # kafka-python is untyped
        def serialize(self, topic: str, headers: Headers, data: Outgoing) -> bytes | None:
            headers.extend(data.headers)
            return data.value

    return WholeRecord()


def _records(lines: IO[bytes], line_format: LineFormat) -> Iterator[Outgoing]:
    for number, line in enumerate(lines, 1):
        try:
            yield line_format.record(line.removesuffix(b"\n"))
        except ValueError as error:
            raise BadLine(f"line {number}: {error}") from None


def _parse_partition(text: str | None) -> int | str | None:
    if text is None or text == "any":
        return text
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(
            f"{text!r} is neither a number nor `any`", param_hint="--partition"
        )
    return int(text)


def _placed(record: Outgoing, place: int | str | None) -> Outgoing:
    """The record with the partition that the command line specifies."""
    if place is None:
        return record
    return replace(record, partition=None if isinstance(place, str) else place)
