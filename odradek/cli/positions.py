"""Where `consume` starts reading: `-o earliest|latest|N|-N|@TIME`."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

Kind = Literal["earliest", "latest", "offset", "from-end", "timestamp"]
NAMES: Final[dict[str, Kind]] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "end": "latest",
}
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
AGO: Final = re.compile(r"-(\d+)([smhd])")


@dataclass(frozen=True, slots=True)
class Position:
    """A position in every partition; `number` is an offset, a count or a time in milliseconds."""

    kind: Kind
    number: int = 0


def parse_position(text: str, *, now: datetime) -> Position:
    """Parse the argument of -o.  Raises: ValueError with a sentence."""
    if text in NAMES:
        return Position(NAMES[text])
    if text.startswith("@"):
        return Position("timestamp", parse_time_ms(text[1:], now=now))
    if re.fullmatch(r"\d+", text):
        return Position("offset", int(text))
    if re.fullmatch(r"-\d+", text):
        return Position("from-end", int(text[1:]))
    raise ValueError(f"{text!r} is not earliest, latest, an offset, -N or @TIME")


def parse_time_ms(text: str, *, now: datetime) -> int:
    """Parse milliseconds, an ISO date or time (UTC if it names no zone), or -15m, -3h, -2d.

    Raises: ValueError with a sentence.
    """
    if re.fullmatch(r"\d{9,}", text):
        return int(text)
    if ago := AGO.fullmatch(text):
        when = now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    else:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is not milliseconds, an ISO time or -3h") from None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1000)


def start_offsets(
    consumer: Any, partitions: Sequence[Any], position: Position, warn: Callable[[str], None]
) -> dict[Any, int]:
    """The offset to start from in each partition, within the partition's log."""
    ends: dict[Any, int] = consumer.end_offsets(partitions)
    if position.kind == "latest":
        return ends
    starts: dict[Any, int] = consumer.beginning_offsets(partitions)
    if position.kind == "earliest":
        return starts
    if position.kind == "from-end":
        return {p: max(starts[p], ends[p] - position.number) for p in partitions}
    if position.kind == "timestamp":
        found = consumer.offsets_for_times(dict.fromkeys(partitions, position.number))
        return {p: ends[p] if found[p] is None else found[p].offset for p in partitions}
    for p in partitions:
        if not starts[p] <= position.number <= ends[p]:
            warn(
                f"{p.topic}-{p.partition} holds offsets {starts[p]} to {ends[p]}:"
                f" starting at the nearest"
            )
    return {p: min(max(position.number, starts[p]), ends[p]) for p in partitions}
