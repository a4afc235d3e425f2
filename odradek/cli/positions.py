"""Where `consume` starts and stops in each partition: `-o START`, `-o START:STOP`.

The grammar is rpk's, with kcat's words: `earliest`, `latest`, N, +N, -N, @TIME, and two of them
with a colon between.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from .errors import CommandError

Kind = Literal["earliest", "latest", "offset", "from-start", "from-end", "timestamp"]
Partition = tuple[str, int]
NAMES: Final[dict[str, Kind]] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "start": "earliest",
    "latest": "latest",
    "end": "latest",
    "now": "latest",
}
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
DURATION: Final = re.compile(r"(\d+)([smhd])")
TIME_LAST_MS: Final = 253_402_300_799_999
# What ListOffsets takes for a time.
LATEST: Final = -1
EARLIEST: Final = -2


@dataclass(frozen=True, slots=True)
class Position:
    """A position in every partition; `number` is an offset, a count or a time in milliseconds."""

    kind: Kind
    number: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """What to read of every partition; without a stop the reading goes on."""

    start: Position
    stop: Position | None = None


@dataclass(frozen=True, slots=True)
class Offsets:
    """What to read of one partition: from `start` on, below `stop` if there is one."""

    start: int
    stop: int | None


def parse_range(texts: Sequence[str], *, now: datetime, default: Kind = "latest") -> Range:
    """Parse the arguments of -o; there are two if they are kcat's `s@TIME` and `e@TIME`.

    Without a start it is `default`, or the log's start where only the stop is given.
    Raises: ValueError with a sentence.
    """
    start: Position | None = None
    stop: Position | None = None
    for text in texts:
        from_here, up_to = _parse_one(text, now)
        if (start and from_here) or (stop and up_to):
            raise ValueError(f"{text!r} says once more where to read")
        start, stop = from_here or start, up_to or stop
    return Range(start or Position("earliest" if stop else default), stop)


def parse_time_ms(text: str, *, now: datetime) -> int:
    """Parse milliseconds, an ISO date or time (UTC if it names no zone), or -15m, -3h, -2d.

    Raises: ValueError with a sentence.
    """
    try:
        time_ms = _parse_time_ms(text, now)
    except OverflowError:
        time_ms = -1
    except ValueError:
        raise ValueError(f"{text!r} is not milliseconds, an ISO time or -3h") from None
    if not 0 <= time_ms <= TIME_LAST_MS:
        raise ValueError(f"{text!r} is not a time between 1970 and 9999")
    return time_ms


def choose_partitions(topic: str, present: Collection[int], wanted: Collection[int]) -> list[int]:
    """The wanted partitions of a topic, or all.  Raises: CommandError."""
    if missing := set(wanted) - set(present):
        raise CommandError(f"{topic} has partitions 0 to {max(present)}, not {min(missing)}")
    return sorted(set(wanted) or present)


def find_offsets(
    look_up: Callable[[int], Mapping[Partition, int]], wanted: Range, warn: Callable[[str], None]
) -> dict[Partition, Offsets]:
    """The offsets of a range in each partition, within the partition's log.

    `look_up` gives the first offset from a time on, -1 where there is none; LATEST and EARLIEST are
    times, too.
    """
    lows, highs = look_up(EARLIEST), look_up(LATEST)

    def offsets(position: Position) -> Mapping[Partition, int]:
        if position.kind != "timestamp":
            return {p: _within(p, position, lows[p], highs[p], warn) for p in lows}
        found = look_up(position.number)
        return {p: highs[p] if found[p] < 0 else found[p] for p in lows}

    starts = offsets(wanted.start)
    stops = None if wanted.stop is None else offsets(wanted.stop)
    return {p: Offsets(starts[p], None if stops is None else stops[p]) for p in lows}


def _parse_one(text: str, now: datetime) -> tuple[Position | None, Position | None]:
    if text[:2] in ("s@", "e@"):
        position = Position("timestamp", parse_time_ms(text[2:], now=now))
        return (position, None) if text[0] == "s" else (None, position)
    if text.startswith("@"):
        return _parse_times(text[1:], now)
    start, colon, stop = text.partition(":")
    first, last = _parse_offset(start), _parse_offset(stop)
    if (start and first is None) or (stop and last is None) or text in ("", ":"):
        raise ValueError(
            f"{text!r} is not earliest, latest, an offset, +N, -N, @TIME or START:STOP"
        )
    return first or (Position("earliest") if colon else None), last


def _parse_times(text: str, now: datetime) -> tuple[Position, Position | None]:
    """One time, or two with a colon between; ISO times have colons, too."""
    for start, stop in _splits(text):
        try:
            first = Position("timestamp", parse_time_ms(start, now=now)) if start else None
            last = _parse_end(stop, first, now) if stop else None
        except ValueError:
            continue
        if first or last:
            return first or Position("earliest"), last
    raise ValueError(f"'@{text}' is not @TIME or @TIME:TIME with milliseconds, ISO times or -3h")


def _splits(text: str) -> Iterator[tuple[str, str]]:
    yield text, ""
    for colon in re.finditer(":", text):
        yield text[: colon.start()], text[colon.end() :]


def _parse_end(text: str, start: Position | None, now: datetime) -> Position:
    if text in NAMES:
        return Position(NAMES[text])
    if start and (length := DURATION.fullmatch(text)):
        return Position("timestamp", start.number + _duration(length) // timedelta(milliseconds=1))
    return Position("timestamp", parse_time_ms(text, now=now))


def _parse_offset(text: str) -> Position | None:
    if text in NAMES:
        return Position(NAMES[text])
    if not (number := re.fullmatch(r"([+-]?)(\d+)", text, re.ASCII)):
        return None
    kinds: dict[str, Kind] = {"": "offset", "+": "from-start", "-": "from-end"}
    return Position(kinds[number[1]], int(number[2]))


def _within(
    partition: Partition, position: Position, low: int, high: int, warn: Callable[[str], None]
) -> int:
    match position.kind:
        case "earliest":
            return low
        case "latest":
            return high
        case "from-start":
            return min(low + position.number, high)
        case "from-end":
            return max(low, high - position.number)
    if not low <= position.number <= high:
        edge = f"starts at offset {low}" if position.number < low else f"ends at offset {high}"
        warn(f"{partition[0]}-{partition[1]} {edge}: taking that instead of {position.number}")
    return min(max(position.number, low), high)


def _parse_time_ms(text: str, now: datetime) -> int:
    if re.fullmatch(r"\d{9,}", text):
        return int(text)
    if text.startswith("-") and (ago := DURATION.fullmatch(text[1:])):
        return _milliseconds(now - _duration(ago))
    when = datetime.fromisoformat(text)
    return _milliseconds(when if when.tzinfo else when.replace(tzinfo=UTC))


def _duration(text: re.Match[str]) -> timedelta:
    return timedelta(**{UNITS[text[2]]: int(text[1])})


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)
