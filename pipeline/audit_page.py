"""The report as one self-contained HTML page without scripts."""

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from .audit_compare import Comparison, RangeResult, State
from .audit_plots import STATES, bars, range_map, shown, state
from .audit_report import Report, example_text, findings_text, table, unequal, verdict

RANGES_MAX: Final = 200
_MARKS: Final = {State.EQUAL: "✓", State.BEHIND: "…", State.DIFFERENT: "✕"}
_KINDS: Final = {State.EQUAL: "good", State.BEHIND: "late", State.DIFFERENT: "bad"}

_STYLE: Final = """
:root { color-scheme: light dark;
  --ground: #fbfbf9; --card: #fff; --ink: #22252b; --quiet: #6a7079; --line: #e3e4e0;
  --equal: #8fbfa9; --excused: #c9ccd1; --behind: #8c9bb5;
  --moved: #d9a821; --doubled: #8a63c9;
  --changed: #d96a1c; --missing: #c4314b; --side0: #3b6ea8; --side1: #86b3da;
  --good: #1d7a4f; --late: #4d6290; --bad: #b3243e; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #16181c; --card: #1e2126; --ink: #e6e7e9; --quiet: #9aa1ab; --line: #32363d;
  --equal: #3f7a62; --excused: #565b64; --behind: #7487a8;
  --moved: #d3a62f; --doubled: #a585e0;
  --changed: #e5823b; --missing: #e5566e; --side0: #5b93d1; --side1: #2f5f92;
  --good: #5fc796; --late: #9db1d8; --bad: #f07a8e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: .95rem; margin: 1.5rem 0 .5rem; }
.good { color: var(--good); } .late { color: var(--late); } .bad { color: var(--bad); }
.quiet, dt { color: var(--quiet); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 1rem 0; }
dd { margin: 0; } dd, li, h2 { overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; }
.tile { flex: 1 1 9rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: .6rem .9rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: .75rem; }
svg { display: block; width: 100%; min-width: 600px; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--quiet); }
svg .label { text-anchor: end; fill: var(--ink); font: 11px ui-monospace, monospace; }
svg .count { font-size: 10px; } svg .axis { text-anchor: middle; }
svg .tick { stroke: var(--line); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin: .5rem 0; font-size: .85rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px;
  margin-right: .4rem; vertical-align: -.08rem; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; }
th { text-align: left; font-weight: 600; color: var(--quiet); }
th, td { padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number + td:not(.number), th.number + th:not(.number) { padding-left: .8rem; }
"""


def page(report: Report) -> str:
    """The whole report as HTML."""
    body = "".join(
        [
            _head(report),
            *(_comparison(one) for one in report.comparisons),
            _notes(report),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit: {escape(verdict(report))}</title>"
        f"<style>{_STYLE}{''.join(_colours())}</style></head><body><main>{body}</main></body></html>\n"
    )


def _colours() -> Iterator[str]:
    for name in (*STATES, "side0", "side1"):
        yield f".{name} {{ fill: var(--{name}); background: var(--{name}); }}\n"


def _head(report: Report) -> str:
    made = datetime.datetime.fromtimestamp(report.made_ms / 1000, datetime.UTC)
    mark = _MARKS[report.state]
    sides = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in report.names.items()
    )
    return (
        f'<h1><span class="{_KINDS[report.state]}">{mark}</span> {escape(verdict(report))}</h1>'
        f"<dl>{sides}<dt>made</dt><dd>{made:%Y-%m-%d %H:%M:%S} UTC</dd>"
        f"<dt>ranges of</dt><dd>{report.range_size:,} offsets{', strict' * report.strict}</dd></dl>"
    )


def _comparison(comparison: Comparison) -> str:
    parts = shown(comparison)
    left_out = len(comparison.partitions) - len(parts)
    more = f'<p class="quiet">and {left_out:,} more partitions</p>' if left_out else ""
    return (
        f"<h2>{escape(comparison.left)} and {escape(comparison.right)}</h2>"
        f"{_tiles(comparison)}"
        f"<h3>Ranges of offsets</h3>{_legend(comparison)}"
        f'<div class="scroll">{range_map(comparison)}{more}</div>'
        f"<h3>Records</h3>{_sides_legend(comparison)}"
        f'<div class="scroll">{bars(comparison)}{more}</div>'
        f"<h3>Partitions</h3>{_partitions(comparison)}"
        f"{_ranges(comparison)}"
    )


def _tiles(comparison: Comparison) -> str:
    ranges = [one for part in comparison.partitions for one in part.ranges]
    states = Counter(one.state for one in ranges)
    tiles = [
        (comparison.left, sum(part.left.count for part in comparison.partitions if part.left)),
        (comparison.right, sum(part.right.count for part in comparison.partitions if part.right)),
        ("absent in both", sum(part.absent_count for part in comparison.partitions)),
        (f"of {len(ranges):,} ranges differ", states[State.DIFFERENT]),
    ]
    if states[State.BEHIND]:
        tiles.append((f"of {len(ranges):,} ranges are behind", states[State.BEHIND]))
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{count:,}</b><span class="quiet">{escape(name)}</span></div>'
            for name, count in tiles
        )
        + "</div>"
    )


def _legend(comparison: Comparison) -> str:
    present = {state(one) for part in comparison.partitions for one in part.ranges}
    return _legend_of((name, text) for name, text in STATES.items() if name in present)


def _sides_legend(comparison: Comparison) -> str:
    return _legend_of([("side0", comparison.left), ("side1", comparison.right)])


def _legend_of(entries: Iterable[tuple[str, str]]) -> str:
    spans = (f'<span><i class="{name}"></i>{escape(text)}</span>' for name, text in entries)
    return f'<div class="legend">{"".join(spans)}</div>'


def _partitions(comparison: Comparison) -> str:
    columns, rows = table(comparison)
    return _table(columns, rows)


def _ranges(comparison: Comparison) -> str:
    ranges = list(unequal(comparison))
    if not ranges:
        return ""
    rows = [_range_row(one) for one in ranges[:RANGES_MAX]]
    more = len(ranges) - RANGES_MAX
    rest = f'<p class="quiet">and {more:,} more: see the JSON</p>' if more > 0 else ""
    columns = ["partition", "offsets", comparison.left, comparison.right, "what"]
    examples = ", ".join(map(example_text, comparison.examples))
    first = f'<p class="quiet">First: {escape(examples)}</p>' if examples else ""
    return f"<h3>Ranges that are not equal</h3>{_table(columns, rows)}{rest}{first}"


def _range_row(one: RangeResult) -> list[object]:
    return [
        str(one.place.topic_partition),
        f"{one.place.start:,} to {one.end - 1:,}",
        one.left.count if one.left else 0,
        one.right.count if one.right else 0,
        findings_text(one.findings),
    ]


def _notes(report: Report) -> str:
    if not report.notes:
        return ""
    items = "".join(
        f'<li class="{"bad" if note.differs else ""}">{escape(note.text)}</li>'
        for note in report.notes
    )
    return f"<h2>Notes</h2><ul>{items}</ul>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    numbers = [any(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
    head = "".join(
        f"<th{' class=number' * number}>{escape(name)}</th>"
        for name, number in zip(columns, numbers, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _cell(cell: object) -> str:
    if isinstance(cell, int):
        return f'<td class="number">{cell:,}</td>'
    kind = f' class="{_KINDS[cell]}"' if isinstance(cell, State) else ""
    return f"<td{kind}>{escape(str(cell))}</td>"
