"""The `Report` of an audit, as a table, as sentences and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .audit_compare import (
    Comparison,
    Digest,
    Example,
    Finding,
    PartitionResult,
    RangeResult,
    State,
    What,
    together,
    worst,
)

BROKER: Final = "broker"
ARCHIVE: Final = "archive"
COPY: Final = "copy"
JSON_VERSION: Final = 1
RANGES_SHOWN: Final = 20

_SAYS: Final = {
    What.MISSING: "missing in the {side}",
    What.REMOVED: "not in the {side} any more",
    What.LATE: "not in the {side} yet",
    What.DOUBLED: "doubled in the {side}",
    What.CHANGED: "changed",
    What.MOVED: "at each other's offsets",
    What.DISORDERED: "out of order in the {side}",
}
_EARLY_ARCHIVE: Final = "from before the archive begins"
_LATE_BROKER: Final = "beyond the broker's end"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about a whole side, in one sentence."""

    text: str
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an audit."""

    topics: tuple[str, ...]
    names: Mapping[str, str]
    """What `broker`, `archive` and `copy` refer to."""
    range_size: int
    strict: bool
    comparisons: tuple[Comparison, ...]
    notes: tuple[Note, ...]
    made_ms: int

    @property
    def state(self) -> State:
        """The worst of all comparisons; DIFFERENT if a note is a difference."""
        if any(note.differs for note in self.notes):
            return State.DIFFERENT
        return worst(one.state for one in self.comparisons)

    @property
    def record_count(self) -> int:
        """The number of records on the side that has the most."""
        return max((max(_counts(one)) for one in self.comparisons), default=0)


def says(what: What, side: str) -> str:
    """A finding in words."""
    if (what, side) == (What.REMOVED, ARCHIVE):
        return _EARLY_ARCHIVE
    if (what, side) == (What.LATE, BROKER):
        return _LATE_BROKER
    return _SAYS[what].format(side=side)


def table(comparison: Comparison) -> tuple[list[str], list[list[object]]]:
    """Columns and rows: a row for each partition."""
    kinds = sorted({kind for part in comparison.partitions for kind in part.counts})
    columns = ["topic", "partition", comparison.left, comparison.right]
    columns += [says(*kind) for kind in kinds] + ["absent in both", "checksum", ""]
    rows: list[list[object]] = []
    for part in comparison.partitions:
        row: list[object] = [part.partition.topic, part.partition.partition]
        row += [_count(part.left), _count(part.right)]
        row += [part.counts.get(kind, 0) for kind in kinds]
        rows.append([*row, part.absent_count, checksum(part), part.state])
    return columns, rows


def checksum(part: PartitionResult) -> str:
    """The first digits for the ranges without findings; of both sides if they are not equal."""
    if part.state is State.EQUAL:
        both = together(one.left for one in part.ranges if not one.findings)
        return _digits(both)
    return f"{_digits(part.left)} ≠ {_digits(part.right)}"


def _digits(digest: Digest | None) -> str:
    return str(digest.placed)[:8] if digest else "-"


def unequal(comparison: Comparison) -> Iterator[RangeResult]:
    """The ranges that differ or are behind."""
    for part in comparison.partitions:
        yield from (one for one in part.ranges if one.state is not State.EQUAL)


def sentences(report: Report) -> Iterator[str]:
    """The text below the tables: ranges and offsets that are not equal, notes, the verdict."""
    for comparison in report.comparisons:
        yield from _details(comparison)
    for note in report.notes:
        yield f"{'different' if note.differs else 'note'}: {note.text}"
    yield verdict(report)


def verdict(report: Report) -> str:
    """The last line: equal, behind or different, and how many records."""
    sides = " and ".join(report.names)
    partitions = max((len(one.partitions) for one in report.comparisons), default=0)
    size = f"{report.record_count:,} records in {partitions} partitions"
    match report.state:
        case State.EQUAL:
            return f"{sides} are equal: {size}"
        case State.BEHIND:
            return f"{_behind(report)}, all others are equal: {size}"
        case State.DIFFERENT:
            return f"{sides} are DIFFERENT: {size}"


def _behind(report: Report) -> str:
    late: Counter[str] = Counter()
    for comparison in report.comparisons:
        if comparison.state is State.BEHIND:
            for part in comparison.partitions:
                for (what, side), count in part.counts.items():
                    late[side] += count if what is What.LATE else 0
    return ", ".join(
        f"{side} is BEHIND: {count:,} {'record is' if count == 1 else 'records are'} not there yet"
        for side, count in late.items()
        if count
    )


def to_json(report: Report) -> dict[str, Any]:
    """The report as one document; checksums are hexadecimal, ends of ranges are exclusive."""
    return {
        "version": JSON_VERSION,
        "equal": report.state is State.EQUAL,
        "state": report.state,
        "verdict": verdict(report),
        "made_ms": report.made_ms,
        "topics": list(report.topics),
        "sides": dict(report.names),
        "range_size": report.range_size,
        "strict": report.strict,
        "notes": [{"text": note.text, "differs": note.differs} for note in report.notes],
        "comparisons": [_comparison_json(one) for one in report.comparisons],
    }


def findings_text(findings: Sequence[Finding]) -> str:
    """The findings of one range, on one line."""
    return ", ".join(f"{one.count:,} {says(one.what, one.side)}" for one in findings)


def example_text(one: Example) -> str:
    """One offset and what was found there."""
    return f"{one.place.topic_partition}@{one.offset} {says(one.what, one.side)}"


def _details(comparison: Comparison) -> Iterator[str]:
    ranges = list(unequal(comparison))
    for part in ranges[:RANGES_SHOWN]:
        first = min(finding.offset_first for finding in part.findings)
        last = max(finding.offset_last for finding in part.findings)
        where = f"{part.place.topic_partition} offsets {first}..{last}"
        yield f"{comparison.left}/{comparison.right} {where}: {findings_text(part.findings)}"
    if len(ranges) > RANGES_SHOWN:
        yield f"… and {len(ranges) - RANGES_SHOWN} more ranges (--json, --html)"
    for one in comparison.examples:
        yield f"  {example_text(one)}"


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "left": comparison.left,
        "right": comparison.right,
        "equal": comparison.state is State.EQUAL,
        "state": comparison.state,
        "partitions": [_partition_json(part) for part in comparison.partitions],
        "examples": [
            {
                "topic": one.place.topic,
                "partition": one.place.partition,
                "offset": one.offset,
                "what": one.what,
                "side": one.side,
            }
            for one in comparison.examples
        ],
    }


def _partition_json(part: PartitionResult) -> dict[str, Any]:
    return {
        "topic": part.partition.topic,
        "partition": part.partition.partition,
        "equal": part.state is State.EQUAL,
        "state": part.state,
        "left": _digest_json(part.left),
        "right": _digest_json(part.right),
        "absent_in_both": part.absent_count,
        "counts": [
            {"what": what, "side": side, "count": count}
            for (what, side), count in sorted(part.counts.items())
        ],
        "ranges": [_range_json(one) for one in part.ranges],
    }


def _range_json(part: RangeResult) -> dict[str, Any]:
    return {
        "start_offset": part.place.start,
        "end_offset": part.end,
        "equal": part.state is State.EQUAL,
        "state": part.state,
        "left": _digest_json(part.left),
        "right": _digest_json(part.right),
        "findings": [
            {
                "what": one.what,
                "side": one.side,
                "count": one.count,
                "first_offset": one.offset_first,
                "last_offset": one.offset_last,
            }
            for one in part.findings
        ],
    }


def _digest_json(digest: Digest | None) -> dict[str, Any] | None:
    if digest is None:
        return None
    return {
        "records": digest.count,
        "first_offset": digest.offset_first,
        "last_offset": digest.offset_last,
        "checksum": str(digest.placed),
        "content_checksum": str(digest.content),
        "partitions": sorted(digest.targets),
    }


def _counts(comparison: Comparison) -> tuple[int, int]:
    left = together(part.left for part in comparison.partitions)
    right = together(part.right for part in comparison.partitions)
    return _count(left), _count(right)


def _count(digest: Digest | None) -> int:
    return digest.count if digest else 0
