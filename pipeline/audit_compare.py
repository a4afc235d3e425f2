"""What an audit concludes from the counts and checksums that Spark has computed; pure.

A *side* is one of the things compared: the broker's topic, its archive, or a topic that was written
from one of them.  Offsets are always those of the source: for a copied record, the offset it came
from.  The offsets of each partition are divided into ranges of equal size, and each side has a
digest of each range.  Where two digests differ, the records themselves are compared (`Finding`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from .offsets import TopicPartition

RANGES_PER_PARTITION: Final = 64
RANGE_SIZE_MIN: Final = 1000
NEVER: Final = 2**63 - 1
"""An offset that no record has."""


class State(StrEnum):
    """How far two sides hold the same records; the worst comes last."""

    EQUAL = "equal"
    BEHIND = "behind"
    """All that archive or copy lack is what they may yet get."""
    DIFFERENT = "different"


def worst(states: Iterable[State]) -> State:
    """The state of a whole whose parts have these."""
    return max(states, key=list(State).index, default=State.EQUAL)


class Place(NamedTuple):
    """One range of offsets, from `start` on; all ranges of an audit have the same size."""

    topic: str
    partition: int
    start: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition."""
        return TopicPartition(self.topic, self.partition)


class Checksum(NamedTuple):
    """An order-independent checksum: XOR of the records' 64-bit hashes, and a sum of 32 bits each.

    XOR alone would cancel out pairs of equal records.
    """

    xor: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.xor & 0xFFFF_FFFF_FFFF_FFFF:016x}{self.total & 0xFFFF_FFFF_FFFF_FFFF:016x}"

    def with_(self, other: "Checksum") -> "Checksum":
        """The checksum of both together."""
        return Checksum(self.xor ^ other.xor, self.total + other.total)


NO_RECORDS: Final = Checksum()


@dataclass(frozen=True, slots=True)
class Digest:
    """Count, offsets and checksums of one side's records in one range."""

    count: int
    offset_first: int
    offset_last: int
    content: Checksum
    """Of key, value, headers and timestamp: unchanged if records have swapped offsets."""
    placed: Checksum
    """Of the same fields together with the offset."""
    types: Checksum = NO_RECORDS
    """Of offset and timestamp type, which a copy need not keep."""
    disordered: int = 0
    """How many records of a copy come after a later one of their source partition."""
    targets: frozenset[int] = frozenset()
    """The partitions that the records were copied to."""

    def same(self, other: "Digest", *, types: bool) -> bool:
        """Whether both hold the same records at the same offsets."""
        return (self.count, self.placed) == (other.count, other.placed) and (
            not types or self.types == other.types
        )


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared."""

    name: str
    digests: Mapping[Place, Digest]
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Lower offsets are not expected here (retention; all of a compacted topic)."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets from here on have not arrived yet."""
    early_differs: bool = False
    """Whether it is a difference if only the other side has records below `starts`."""
    late: State = State.DIFFERENT
    """What it is if only the other side has records from `ends` on."""


class What(StrEnum):
    """The kinds of findings."""

    MISSING = "missing"
    REMOVED = "removed"
    LATE = "late"
    DOUBLED = "doubled"
    CHANGED = "changed"
    MOVED = "moved"
    DISORDERED = "disordered"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with some records of one range."""

    place: Place
    what: What
    side: str
    """The side that it was seen on; "" if it concerns both."""
    count: int
    offset_first: int
    offset_last: int


@dataclass(frozen=True, slots=True)
class Example:
    """One offset at which something was found."""

    place: Place
    offset: int
    what: What
    side: str


@dataclass(frozen=True, slots=True)
class RangeResult:
    """One range on both sides."""

    place: Place
    end: int
    left: Digest | None
    right: Digest | None
    findings: tuple[Finding, ...]
    state: State


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition on both sides."""

    partition: TopicPartition
    left: Digest | None
    right: Digest | None
    counts: Mapping[tuple[What, str], int]
    absent_count: int
    """Offsets between the first and the last record that neither side has; no difference."""
    ranges: tuple[RangeResult, ...]
    state: State


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two sides."""

    left: str
    right: str
    partitions: tuple[PartitionResult, ...]
    examples: tuple[Example, ...] = ()
    """The first offsets at which something was found."""

    @property
    def state(self) -> State:
        """The worst of all partitions."""
        return worst(partition.state for partition in self.partitions)


def range_size(spans: Iterable[int]) -> int:
    """A round number of offsets, so that the longest partition has about 64 ranges."""
    wanted = max(RANGE_SIZE_MIN, -(-max(spans, default=0) // RANGES_PER_PARTITION))
    power = int(10 ** (len(str(wanted)) - 1))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= wanted)


def suspects(left: Side, right: Side, *, types: bool) -> set[Place]:
    """The ranges whose digests differ: their records have to be compared one by one."""
    places = left.digests.keys() | right.digests.keys()
    return {
        place
        for place in places
        if not _same(left.digests.get(place), right.digests.get(place), types=types)
    }


def compare(
    left: Side,
    right: Side,
    findings: Iterable[Finding],
    examples: Iterable[Example] = (),
    *,
    size: int,
) -> Comparison:
    """The result for two sides, given what was found in their suspect ranges."""
    found: dict[Place, list[Finding]] = defaultdict(list)
    for finding in findings:
        found[finding.place].append(finding)
    for finding in _disorder(left, right):
        found[finding.place].append(finding)
    ranges: dict[TopicPartition, list[RangeResult]] = defaultdict(list)
    for place in sorted(left.digests.keys() | right.digests.keys()):
        result = _range(place, left, right, found[place], size=size)
        ranges[place.topic_partition].append(result)
    for partition in left.starts.keys() | right.starts.keys():
        ranges[partition] += []
    return Comparison(
        left.name,
        right.name,
        tuple(_partition(key, tuple(ranges[key]), left, right) for key in sorted(ranges)),
        tuple(_example(example, left, right) for example in examples),
    )


def together(digests: Iterable[Digest | None]) -> Digest | None:
    """One digest of several ranges; None if there are no records."""
    present = [digest for digest in digests if digest is not None]
    if not present:
        return None
    content = placed = types = NO_RECORDS
    for digest in present:
        content = content.with_(digest.content)
        placed = placed.with_(digest.placed)
        types = types.with_(digest.types)
    return Digest(
        count=sum(digest.count for digest in present),
        offset_first=min(digest.offset_first for digest in present),
        offset_last=max(digest.offset_last for digest in present),
        content=content,
        placed=placed,
        types=types,
        disordered=sum(digest.disordered for digest in present),
        targets=frozenset[int]().union(*(digest.targets for digest in present)),
    )


def _same(left: Digest | None, right: Digest | None, *, types: bool) -> bool:
    return left is not None and right is not None and left.same(right, types=types)


def _disorder(*sides: Side) -> Iterator[Finding]:
    for side in sides:
        for place, digest in side.digests.items():
            if digest.disordered:
                yield Finding(
                    place,
                    What.DISORDERED,
                    side.name,
                    digest.disordered,
                    digest.offset_first,
                    digest.offset_last,
                )


def _range(
    place: Place, left: Side, right: Side, found: list[Finding], *, size: int
) -> RangeResult:
    if _moved(place, left, right):
        found = [
            replace(finding, what=What.MOVED) if finding.what is What.CHANGED else finding
            for finding in found
        ]
    return RangeResult(
        place,
        place.start + size,
        left.digests.get(place),
        right.digests.get(place),
        tuple(sorted(found, key=lambda finding: (finding.what, finding.side))),
        worst(_state(finding, left, right) for finding in found),
    )


def _example(example: Example, left: Side, right: Side) -> Example:
    if example.what is What.CHANGED and _moved(example.place, left, right):
        return replace(example, what=What.MOVED)
    return example


def _moved(place: Place, left: Side, right: Side) -> bool:
    """Whether both sides have the same records at other offsets: they are moved, not changed."""
    ours, theirs = left.digests.get(place), right.digests.get(place)
    return (
        ours is not None
        and theirs is not None
        and ours.content == theirs.content
        and ours.placed != theirs.placed
    )


def _state(finding: Finding, left: Side, right: Side) -> State:
    side = left if finding.side == left.name else right
    match finding.what:
        case What.REMOVED if not side.early_differs:
            return State.EQUAL
        case What.LATE:
            return side.late
        case _:
            return State.DIFFERENT


def _partition(
    partition: TopicPartition, ranges: tuple[RangeResult, ...], left: Side, right: Side
) -> PartitionResult:
    counts: dict[tuple[What, str], int] = defaultdict(int)
    for part in ranges:
        for finding in part.findings:
            counts[finding.what, finding.side] += finding.count
    ours = together(part.left for part in ranges)
    theirs = together(part.right for part in ranges)
    return PartitionResult(
        partition,
        ours,
        theirs,
        dict(counts),
        _absent(ours, theirs, counts, left.name),
        ranges,
        worst(part.state for part in ranges),
    )


def _absent(
    ours: Digest | None,
    theirs: Digest | None,
    counts: Mapping[tuple[What, str], int],
    left: str,
) -> int:
    """How many offsets in the span of both sides neither has."""
    either = [digest for digest in (ours, theirs) if digest is not None]
    if not either:
        return 0
    first = min(digest.offset_first for digest in either)
    last = max(digest.offset_last for digest in either)
    distinct = (ours.count if ours else 0) - counts.get((What.DOUBLED, left), 0)
    not_ours = (What.MISSING, What.REMOVED, What.LATE)
    return last - first + 1 - distinct - sum(counts.get((what, left), 0) for what in not_ours)
