"""The table as a picture: one pair of bars per metric, drawn as SVG by hand.

A bar's length is the median relative to the greatest median of its pair, the thin line on it the
spread, the dashed tick the floor.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from .measure import Metric
from .report import Row, Summary, rows
from .rounds import Outcome

WIDTH: Final = 960
LABEL_WIDTH: Final = 300
BAR_WIDTH: Final = 400
BAR_HEIGHT: Final = 10
HEADING_HEIGHT: Final = 26
ROW_HEIGHT: Final = 30
TOP: Final = 66
COLOUR_OF: Final = {"kafka": "#9aa5b8", "odradek": "#2a6f97"}
RATIO_COLOUR: Final = {True: "#2d6a4f", False: "#b00020", None: "#222"}
FONT: Final = "font-family='Helvetica, Arial, sans-serif'"


def draw(outcomes: Sequence[Outcome]) -> str:
    """The whole picture."""
    parts, y, shown = _legend(), TOP, None
    for row in rows(outcomes):
        if row.kafka is None and row.odradek is None:
            continue
        if row.outcome is not shown:
            shown = row.outcome
            parts.append(_text(16, y + 17, shown.measure.title, weight="bold"))
            y += HEADING_HEIGHT
        parts += _row(row, y)
        y += ROW_HEIGHT
    height = y + 12
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' {FONT} font-size='12'>"
    )
    ground = "<rect width='100%' height='100%' fill='white'/>"
    return "\n".join([head, ground, *parts, "</svg>", ""])


def _legend() -> list[str]:
    parts = [_text(16, 26, "Odradek beside Apache Kafka 4.3.1", size=17, weight="bold")]
    x = 16
    for name, label in (("kafka", "Apache Kafka (1 GB heap)"), ("odradek", "Odradek")):
        parts.append(f"<rect x='{x}' y='40' width='12' height='10' fill='{COLOUR_OF[name]}'/>")
        parts.append(_text(x + 18, 49, label))
        x += 110 + 80 * (name == "kafka")
    parts.append(_tick(x, 36, 18))
    parts.append(_text(x + 8, 49, "floor: a bare socket loop"))
    parts.append(_text(x + 178, 49, "bars: medians; thin lines: least to greatest"))
    parts.append(_text(WIDTH - 16, 49, "Odradek / Kafka", anchor="end"))
    return parts


def _row(row: Row, top: int) -> list[str]:
    summaries = {"kafka": row.kafka, "odradek": row.odradek}
    longest = max(summary.greatest for summary in summaries.values() if summary) or 1.0
    scale = BAR_WIDTH / longest
    metric = row.metric
    parts = [
        _text(28, top + 10, f"{metric.title}, {metric.unit.name}"),
        _text(28, top + 21, f"{metric.better} is better", size=10, colour="#777"),
    ]
    for position, (name, summary) in enumerate(summaries.items()):
        if summary:
            y = top + position * (BAR_HEIGHT + 2)
            parts += _bar(summary, metric, y, scale, COLOUR_OF[name])
    if row.floor:
        beyond = row.floor.median > longest
        x = LABEL_WIDTH + (BAR_WIDTH if beyond else row.floor.median * scale)
        parts.append(_tick(x, top - 2, 2 * BAR_HEIGHT + 6))
        if beyond:
            text = f"→ {metric.unit.show(row.floor.median)}"
            parts.append(_text(x + 62, top + 15, text, size=11, colour="#d1495b"))
    if row.ratio is not None:
        colour = RATIO_COLOUR[row.target_met]
        shown = f"{row.ratio:.2f}x"
        parts.append(_text(WIDTH - 16, top + 10, shown, size=13, colour=colour, anchor="end"))
    if metric.target is not None:
        shown = f"target {metric.target.show(metric.unit)}"
        parts.append(_text(WIDTH - 16, top + 22, shown, size=10, colour="#777", anchor="end"))
    return parts


def _bar(summary: Summary, metric: Metric, y: float, scale: float, colour: str) -> list[str]:
    end = LABEL_WIDTH + summary.median * scale
    least, greatest = (LABEL_WIDTH + v * scale for v in (summary.least, summary.greatest))
    middle = y + BAR_HEIGHT / 2
    return [
        f"<rect x='{LABEL_WIDTH}' y='{y:.1f}' width='{end - LABEL_WIDTH:.1f}' "
        f"height='{BAR_HEIGHT}' fill='{colour}'/>",
        f"<path d='M{least:.1f} {middle:.1f}H{greatest:.1f}' stroke='#222' stroke-width='1'/>",
        _text(max(end, greatest) + 6, y + 9, metric.unit.show(summary.median), size=11),
    ]


def _tick(x: float, y: float, height: float) -> str:
    return f"<path d='M{x:.1f} {y:.1f}v{height}' stroke='#d1495b' stroke-dasharray='3 2'/>"


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
