"""What verifiable clients note in a run's history: JSON arrays beside the laboratory's objects.

Every time is wall time in seconds since 1970, as in the laboratory's notes, so that all lines of a
file can be put on one scale. A record's value is `writer partition number epoch` and spaces after
it. `epoch` counts a writer's producers: it rises when one has ended with a fatal error and another
takes its place.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

# A client's own error, a time-out above all: the record may be there or not.
UNKNOWN: Final = -1
# The broker has not written the record, whichever attempt it was that was refused.
DEFINITE: Final = frozenset({10, 17, 18, 21, 29, 32, 43, 76, 87})


class Value(NamedTuple):
    """What a record holds; `number` counts up from 0 within writer, partition and epoch."""

    writer: str
    partition: int
    number: int
    epoch: int


class Writer(NamedTuple):
    """A writer begins; `idempotent` and `acks` say what it may expect."""

    writer: str
    acks: str
    idempotent: bool
    at_s: float


class Sent(NamedTuple):
    """A record and what became of it: error code 0, a broker's, or UNKNOWN."""

    writer: str
    partition: int
    number: int
    epoch: int
    code: int
    offset: int  # -1 if it was not told
    sent_s: float
    took_s: float

    @property
    def value(self) -> Value:
        return Value(self.writer, self.partition, self.number, self.epoch)


class Closed(NamedTuple):
    """A writer, reader or member has noted all it had to."""

    who: str
    at_s: float


class Fatal(NamedTuple):
    """A client has given up, or told of what no application may ever see."""

    who: str
    why: str
    at_s: float


class Read(NamedTuple):
    """`length` records in a row, numbers and offsets both counting up by one."""

    reader: str
    partition: int
    offset: int
    writer: str
    number: int
    epoch: int
    length: int
    at_s: float

    def values(self) -> Iterator[tuple[int, Value]]:
        """Offset and value of each."""
        for step in range(self.length):
            value = Value(self.writer, self.partition, self.number + step, self.epoch)
            yield self.offset + step, value


class Span(NamedTuple):
    """A reader has read a partition from its first offset to its end (exclusive)."""

    reader: str
    partition: int
    first: int
    end: int
    at_s: float


class Owns(NamedTuple):
    """A member of a group was given a partition; it begins at the offset committed there, or -1."""

    member: str
    group: str
    partition: int
    offset: int
    asked_s: float
    at_s: float


class Committed(NamedTuple):
    """A member's commit of a partition was answered; asked when, answered when."""

    member: str
    group: str
    partition: int
    offset: int
    asked_s: float
    at_s: float


class Offset(NamedTuple):
    """What a broker told of a partition that it leads, when that has changed.

    `which`: latest, earliest or stable (the last stable offset); `group NAME`: what is committed.
    """

    broker: int
    partition: int
    which: str
    leader_epoch: int
    offset: int
    at_s: float


class View(NamedTuple):
    """What a broker's Metadata says of a partition, when that has changed."""

    broker: int
    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    at_s: float


class Controls(NamedTuple):
    """Whom a broker's Metadata calls the controller, when that has changed; -1: nobody."""

    broker: int
    controller: int
    at_s: float


class Lab(NamedTuple):
    """One of the laboratory's own notes: what it did to whom."""

    what: str
    whom: str
    at_s: float
    details: dict[str, Any]


Event = (
    Writer | Sent | Closed | Fatal | Read | Span | Owns | Committed | Offset | View | Controls | Lab
)
_KINDS: Final[dict[str, Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Writer, Sent, Closed, Fatal, Read, Span, Owns, Committed, Offset, View, Controls,
    )
}  # fmt: skip


def line(event: Any) -> str:
    """One event as a line, with its end."""
    return json.dumps([type(event).__name__.lower(), *event], separators=(",", ":")) + "\n"


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """All events of a file, in its order.  Raises: ValueError."""
    for text in lines:
        found = json.loads(text)
        if isinstance(found, list):
            yield _KINDS[found[0]](*found[1:])
        else:
            at_s = datetime.fromisoformat(found.pop("time")).timestamp()
            yield Lab(found.pop("what"), found.pop("whom"), at_s, found)


def load(path: Path, begin_bytes: int = 0) -> list[Event]:
    """All events of a history from a place in it.  Raises: ValueError, OSError."""
    with path.open("rb") as file:
        file.seek(begin_bytes)
        return list(parse(text.decode() for text in file))


def load_so_far(path: Path) -> list[Event]:
    """The events of a history that is still being written, except what was sent.

    That is nearly all of it: without, one may look again and again.  Raises: ValueError, OSError.
    """
    sent = f'["{Sent.__name__.lower()}"'
    whole_lines, _, _ = path.read_text().rpartition("\n")
    return list(parse(text for text in whole_lines.splitlines() if not text.startswith(sent)))


def encode(value: Value, size_bytes: int = 0) -> bytes:
    """A record's value, filled up with spaces."""
    return " ".join(map(str, value)).encode().ljust(size_bytes)


def decode(data: bytes) -> Value:
    """What a record's value says.  Raises: ValueError."""
    writer, partition, number, epoch = data.decode().split()
    return Value(writer, int(partition), int(number), int(epoch))


def runs(
    reader: str, partition: int, records: Sequence[tuple[int, bytes]], at_s: float
) -> Iterator[Read]:
    """Records (offset, value) in the order in which they came, those in a row as one event."""
    begin: tuple[int, Value] | None = None
    count = 0
    for offset, data in records:
        value = decode(data)
        if begin is not None:
            expected = begin[1]._replace(number=begin[1].number + count)
            if (offset, value) == (begin[0] + count, expected):
                count += 1
                continue
            yield _run(reader, partition, begin, count, at_s)
        begin, count = (offset, value), 1
    if begin is not None:
        yield _run(reader, partition, begin, count, at_s)


def _run(reader: str, partition: int, begin: tuple[int, Value], count: int, at_s: float) -> Read:
    offset, value = begin
    if value.partition != partition:
        raise ValueError(f"{value} was found in partition {partition}")
    return Read(reader, partition, offset, value.writer, value.number, value.epoch, count, at_s)
