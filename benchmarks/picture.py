"""The table as a picture: one pair of bars per metric, drawn as SVG by hand.

A bar's length is the median relative to the greatest median of its pair, the thin line on it the
spread, the dashed tick the floor.  Light and dark surroundings both work: the ground is white.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from .measure import Metric
from .report import Row, Summary, rows
from .rounds import Outcome

WIDTH: Final = 960
LABEL_WIDTH: Final = 330
BAR_WIDTH: Final = 400
BAR_HEIGHT: Final = 11
ROW_HEIGHT: Final = 38
TOP: Final = 64
COLOUR_OF: Final = {"kafka": "#8d99ae", "odradek": "#2a6f97"}
FONT: Final = "font-family='Helvetica, Arial, sans-serif'"


def draw(outcomes: Sequence[Outcome]) -> str:
    """The whole picture."""
    drawn = [row for row in rows(outcomes) if row.kafka or row.odradek]
    height = TOP + ROW_HEIGHT * len(drawn) + 16
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' {FONT} font-size='12'>",
        "<rect width='100%' height='100%' fill='white'/>",
        *_legend(),
    ]
    for number, row in enumerate(drawn):
        parts += _row(row, TOP + number * ROW_HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    parts = [_text(16, 26, "Odradek beside Apache Kafka 4.3.1", size=17, weight="bold")]
    x = 16
    for name, label in (("kafka", "Apache Kafka (1 GB heap)"), ("odradek", "Odradek")):
        parts.append(f"<rect x='{x}' y='40' width='12' height='10' fill='{COLOUR_OF[name]}'/>")
        parts.append(_text(x + 18, 49, label))
        x += 190
    parts.append(_tick(x, 39, dashed=True))
    parts.append(_text(x + 8, 49, "bare socket loop; bars: median, thin lines: least to greatest"))
    return parts


def _row(row: Row, top: int) -> list[str]:
    summaries = {"kafka": row.kafka, "odradek": row.odradek}
    longest = max(summary.greatest for summary in summaries.values() if summary) or 1.0
    scale = BAR_WIDTH / longest
    parts = [
        _text(16, top + 11, row.outcome.measure.title, size=10, colour="#777"),
        _text(16, top + 24, f"{row.metric.title}, {row.metric.unit.name} ({row.metric.better})"),
    ]
    for position, (name, summary) in enumerate(summaries.items()):
        if summary:
            y = top + position * (BAR_HEIGHT + 2)
            parts += _bar(summary, row.metric, y, scale, COLOUR_OF[name])
    if row.floor and row.floor.median <= longest:
        parts.append(_tick(LABEL_WIDTH + row.floor.median * scale, top - 1, dashed=True))
    if row.ratio is not None:
        colour = {True: "#2d6a4f", False: "#b00020", None: "#333"}[row.target_met]
        parts.append(
            _text(WIDTH - 16, top + 17, f"{row.ratio:.2f}x", size=14, colour=colour, anchor="end")
        )
    return parts


def _bar(summary: Summary, metric: Metric, y: float, scale: float, colour: str) -> list[str]:
    end = LABEL_WIDTH + summary.median * scale
    least, greatest = (LABEL_WIDTH + v * scale for v in (summary.least, summary.greatest))
    middle = y + BAR_HEIGHT / 2
    return [
        f"<rect x='{LABEL_WIDTH}' y='{y:.1f}' width='{end - LABEL_WIDTH:.1f}' "
        f"height='{BAR_HEIGHT}' fill='{colour}'/>",
        f"<path d='M{least:.1f} {middle:.1f}H{greatest:.1f}' stroke='#222' stroke-width='1'/>",
        _text(max(end, greatest) + 6, y + 10, metric.unit.show(summary.median), size=11),
    ]


def _tick(x: float, y: float, *, dashed: bool) -> str:
    dash = " stroke-dasharray='3 2'" if dashed else ""
    return f"<path d='M{x:.1f} {y:.1f}v{2 * BAR_HEIGHT + 4}' stroke='#d1495b'{dash}/>"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    weight: str = "normal",
    colour: str = "#222",
    anchor: str = "start",
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}' "
        f"fill='{colour}' text-anchor='{anchor}'>{escape(text)}</text>"
    )
