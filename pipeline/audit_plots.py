"""The plots of an audit as SVG: which ranges of offsets differ, how many records each side has.

Colours are CSS variables of the page (audit_page.py), so that they follow light and dark mode.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from .audit_compare import Comparison, Finding, PartitionResult, RangeResult, State, What
from .audit_report import BROKER, findings_text

PARTITIONS_MAX: Final = 60
COLUMNS_MAX: Final = 160
WIDTH: Final = 860
ROW_HEIGHT: Final = 22
CELL_HEIGHT: Final = 16
BAR_HEIGHT: Final = 9
BAR_GAP: Final = 3
BARS_HEIGHT: Final = 2 * (BAR_HEIGHT + BAR_GAP) + 6
LABEL_LENGTH_MAX: Final = 20
LABEL_GAP: Final = 10
CHARACTER_WIDTH: Final = 7
"""In labels and numbers, at most."""
TICKS: Final = 5

# By rising severity; a cell that stands for several ranges shows their most severe state.
STATES: Final = {
    "equal": "equal",
    "excused": "on one side only, no difference",
    "behind": "not there yet",
    "moved": "changed places or order",
    "doubled": "doubled",
    "changed": "changed",
    "missing": "missing",
}
_STATE_OF: Final = {
    What.MISSING: "missing",
    What.REMOVED: "missing",
    What.LATE: "behind",
    What.DOUBLED: "doubled",
    What.CHANGED: "changed",
    What.MOVED: "moved",
    What.DISORDERED: "moved",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """The horizontal extent of a plot, between its row labels and its right margin."""

    left: int
    width: float

    @classmethod
    def of(cls, parts: Sequence[PartitionResult], *, right: int, left: int = 0) -> "Frame":
        """Fit the plot beside its labels; `left` is the minimum margin, `right` the exact one."""
        longest = max((len(_shortened(str(part.partition))) for part in parts), default=0)
        left = max(left, longest * CHARACTER_WIDTH + LABEL_GAP)
        return cls(left, WIDTH - left - right)

    def x(self, share: float) -> float:
        """The x coordinate at a share of the width."""
        return self.left + self.width * share


def shown(comparison: Comparison) -> list[PartitionResult]:
    """The partitions that fit into a plot, in order; the worst take precedence."""
    parts = sorted(comparison.partitions, key=_rank, reverse=True)[:PARTITIONS_MAX]
    return sorted(parts, key=lambda part: part.partition)


def state(part: RangeResult) -> str:
    """The state that a cell shows for a range."""
    if not part.findings:
        return "equal"
    if part.state is State.EQUAL:
        return "excused"
    return max((_state_of(one) for one in part.findings), key=list(STATES).index)


def _state_of(finding: Finding) -> str:
    if (finding.what, finding.side) == (What.LATE, BROKER):
        return "missing"  # others have got ahead of the broker, which gets no more of them
    return _STATE_OF[finding.what]


def _rank(part: PartitionResult) -> int:
    return list(State).index(part.state)


def range_map(comparison: Comparison) -> str:
    """A row for each partition, a cell for each range of offsets."""
    parts = shown(comparison)
    ranges = [one for part in parts for one in part.ranges]
    first = min((one.place.start for one in ranges), default=0)
    last = max((one.end for one in ranges), default=first + 1)
    half_a_tick = len(f"{last:,}") * CHARACTER_WIDTH // 2 + 4
    frame = Frame.of(parts, left=half_a_tick, right=half_a_tick)
    lines = [_axis(frame, first, last, len(parts) * ROW_HEIGHT)]
    for row, part in enumerate(parts):
        lines.append(_label(frame, part, row * ROW_HEIGHT + CELL_HEIGHT - 4))
        lines += _cells(frame, part.ranges, first, last, row * ROW_HEIGHT)
    title = f"Offset ranges of {len(parts)} partitions, {comparison.left} and {comparison.right}"
    return _svg(title, len(parts) * ROW_HEIGHT + 26, lines)


def bars(comparison: Comparison) -> str:
    """For each partition, a bar for each side's number of records."""
    parts = shown(comparison)
    counts = [
        (part.left.count if part.left else 0, part.right.count if part.right else 0)
        for part in parts
    ]
    most = max((max(pair) for pair in counts), default=0) or 1
    frame = Frame.of(parts, right=(len(f"{most:,}") + 1) * CHARACTER_WIDTH)
    names = (comparison.left, comparison.right)
    lines = []
    for row, (part, pair) in enumerate(zip(parts, counts, strict=True)):
        top = row * BARS_HEIGHT
        lines.append(_label(frame, part, top + BAR_HEIGHT + 5))
        for side, (name, count) in enumerate(zip(names, pair, strict=True)):
            y = top + side * (BAR_HEIGHT + BAR_GAP)
            end = frame.x(count / most)
            lines.append(
                f'<rect class="side{side}" x="{frame.left}" y="{y}" rx="2"'
                f' width="{end - frame.left:.1f}" height="{BAR_HEIGHT}">'
                f"<title>{escape(name)}: {count:,} records</title></rect>"
                f'<text class="count" x="{end + 6:.1f}" y="{y + BAR_HEIGHT}">{count:,}</text>'
            )
    title = f"Records of {len(parts)} partitions, {comparison.left} and {comparison.right}"
    return _svg(title, len(parts) * BARS_HEIGHT, lines)


def _cells(
    frame: Frame, ranges: Sequence[RangeResult], first: int, last: int, top: int
) -> Iterator[str]:
    columns: dict[int, list[RangeResult]] = {}
    size = max((one.end - one.place.start for one in ranges), default=1)
    count = min(COLUMNS_MAX, max(1, (last - first) // size))
    for one in ranges:
        columns.setdefault((one.place.start - first) * count // (last - first), []).append(one)
    width = frame.width / count
    for column, parts in columns.items():
        worst = max(parts, key=lambda one: list(STATES).index(state(one)))
        yield (
            f'<rect class="{state(worst)}" x="{frame.x(column / count):.2f}" y="{top}"'
            f' width="{max(1.0, width - 1):.2f}" height="{CELL_HEIGHT}">'
            f"<title>{escape(_told(parts))}</title></rect>"
        )


def _told(parts: Sequence[RangeResult]) -> str:
    lines = [f"offsets {parts[0].place.start:,} to {parts[-1].end - 1:,}"]
    lines += [findings_text(one.findings) for one in parts if one.findings][:4]
    if len(lines) == 1:
        lines.append(f"{sum(one.left.count for one in parts if one.left):,} records, equal")
    return "\n".join(lines)


def _label(frame: Frame, part: PartitionResult, y: int) -> str:
    name = str(part.partition)
    return (
        f'<text class="label" x="{frame.left - LABEL_GAP}" y="{y}">{escape(_shortened(name))}'
        f"<title>{escape(name)}</title></text>"
    )


def _shortened(name: str) -> str:
    half = LABEL_LENGTH_MAX // 2
    return name if len(name) <= LABEL_LENGTH_MAX else f"{name[: half - 1]}…{name[-half:]}"


def _axis(frame: Frame, first: int, last: int, top: int) -> str:
    lines = []
    for tick in _ticks(first, last):
        x = frame.x((tick - first) / (last - first))
        lines.append(
            f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{top + 4}"/>'
            f'<text class="axis" x="{x:.1f}" y="{top + 18}">{tick:,}</text>'
        )
    return "".join(lines)


def _ticks(first: int, last: int) -> list[int]:
    """Round offsets, about as many as `TICKS`."""
    step = 1
    while (last - first) / step > TICKS:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(-(-first // step) * step, last + 1, step))


def _svg(title: str, height: int, lines: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(lines)}</svg>"
    )
