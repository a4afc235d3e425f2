"""Where `groups reset-offsets` moves a group's committed offsets: pure functions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from .options import PARTITION_LAST

Kind = Literal["earliest", "latest", "current", "offset", "shift", "time"]


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to move to; `number` is an offset, or the count to shift by."""

    kind: Kind
    number: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one partition before the move."""

    start: int
    end: int
    """The end offset of the log."""
    committed: int | None
    at_time: int | None = None
    """The first offset at or after the requested time; None: there is none."""


@dataclass(frozen=True, slots=True)
class Move:
    """How one committed offset is moved."""

    partition: Partition
    committed: int | None
    new: int | None
    """None: it cannot be moved, and `notice` says why."""
    notice: str = ""


def plan(target: Target, known: Mapping[Partition, Known]) -> list[Move]:
    """One move for each partition, in order, to an offset within its log."""
    return [_move(target, partition, known[partition]) for partition in sorted(known)]


def _move(target: Target, partition: Partition, known: Known) -> Move:
    if target.kind == "shift" and known.committed is None:
        return Move(partition, None, None, "nothing is committed that could be shifted")
    wanted, notice = _wanted(target, known)
    new = min(max(wanted, known.start), known.end)
    if new > wanted:
        notice = f"{wanted} is before the log's start: moves to {new}"
    elif new < wanted:
        notice = f"{wanted} is past the log's end: moves to {new}"
    return Move(partition, known.committed, new, notice)


def _wanted(target: Target, known: Known) -> tuple[int, str]:
    """The offset before it is limited to the log, and a notice."""
    committed = known.committed
    if target.kind == "earliest":
        return known.start, ""
    if target.kind == "latest":
        return known.end, ""
    if target.kind == "offset":
        return target.number, ""
    if target.kind == "time":
        if known.at_time is None:
            return known.end, "no record is as late as that: moves to the end"
        return known.at_time, ""
    if committed is None:
        return known.end, "nothing is committed: moves to the end"
    return committed + target.number, ""  # "current" has the number 0


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """Parse `T`, or `T:0,3` for some partitions of it.  Raises: ValueError with a sentence."""
    name, colon, listed = text.partition(":")
    wrong = ValueError(f"{text!r} is not like TOPIC or TOPIC:0,1")
    if not name or (colon and not re.fullmatch(r"\d+(,\d+)*", listed)):
        raise wrong
    if not colon:
        return name, None
    indexes = sorted({int(index) for index in listed.split(",")})
    if indexes[-1] > PARTITION_LAST:
        raise wrong
    return name, indexes


def by_topic(partitions: Sequence[Partition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found
