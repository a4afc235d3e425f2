"""The audit's page in a real browser: nothing to complain of, every plot within its box."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.pipeline.audit_compare import Comparison
from odradek.pipeline.audit_page import page
from odradek.pipeline.audit_report import Note, Report
from odradek.pipeline.offsets import TopicPartition
from tests.pipeline.audit_model import Model, Record, audited
from tests.pipeline.chromium import Chromium, find_chromium

pytestmark = pytest.mark.chromium

WINDOWS = (1280, 800, 390)
LONG_NAME = "warehouse.EU-WEST-1.orders_WWWWWW.v2-" + "x" * 150


@pytest.fixture
def chromium(tmp_path: Path) -> Chromium:
    program = find_chromium()
    assert program is not None
    return Chromium(program, tmp_path)


def records(partitions: int, first: int, end: int, step: int = 1) -> tuple[Record, ...]:
    return tuple(
        Record(p, offset, f"{p} {offset}")
        for p in range(partitions)
        for offset in range(first, end, step)
    )


def small() -> Comparison:
    """Every kind of cell, in two partitions."""
    whole = records(2, 0, 20)
    kept = [one for one in whole if one.partition or one.offset not in (3, 18, 19)]
    moved = [one._replace(offset=19 - one.offset) if one.partition else one for one in kept]
    changed = [one._replace(content="?") if one[:2] == (0, 12) else one for one in moved]
    right = (*changed, Record(0, 7, "0 7"))
    return audited(
        Model("broker", whole[5:], {0: 5}, {0: 20, 1: 20}),
        Model("archive", tuple(right), {}, {0: 18, 1: 20}),
        5,
    )


def named(comparison: Comparison, topic: str) -> Comparison:
    """The same of a topic with a name of the greatest length, more or less."""
    parts = tuple(
        replace(part, partition=TopicPartition(topic, part.partition.partition))
        for part in comparison.partitions
    )
    return replace(comparison, partitions=parts)


def large() -> Comparison:
    """More partitions than a plot holds, with high offsets."""
    first = 7_000_000_000_000
    whole = records(70, first, first + 1_300_000, 10_000)
    kept = tuple(one for one in whole if one.offset % 70_000)
    return audited(Model("broker", whole, {}, {}), Model("archive", kept, {}, {}), 10_000)


def report(*comparisons: Comparison) -> Report:
    notes = [Note(f"the archive's file {'x' * 300} is not there", differs=True)]
    names = {"broker": f"{LONG_NAME} at <here>:9092", "archive": "/data/" + "archive" * 40}
    return Report(("t",), names, 5, False, comparisons, tuple(notes), 1_700_000_000_000)


def spans() -> Iterable[Comparison]:
    """Ranges of offsets that begin and end anywhere: their axes have ticks everywhere."""
    high = 7_000_000_000_000
    for first, end in ((0, 1), (0, 1000), (123_456, 987_654), (99, 501), (high, high + 10**6)):
        step = max(1, (end - first) // 40)
        whole = records(1, first, end, step)
        yield audited(Model("broker", whole, {}, {}), Model("archive", whole, {}, {}), step)


@pytest.mark.parametrize("width", WINDOWS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: report(small()),
        lambda: report(),
        lambda: report(named(large(), LONG_NAME)),
        lambda: report(*spans()),
    ],
    ids=["small", "nothing", "large", "spans"],
)
def test_every_plot_is_within_its_box(
    chromium: Chromium, make: Callable[[], Report], width: int
) -> None:
    shown = make()
    seen = chromium.look(page(shown), width=width)
    assert (seen.problems, seen.console) == ([], [])
    assert seen.marks >= 2 * sum(len(one.partitions[:60]) for one in shown.comparisons)


def test_a_plot_that_leaves_its_box_is_seen(chromium: Chromium) -> None:
    html = page(report(small()))
    broken = html.replace('<rect class="side0" x="', '<rect class="side0" x="8')
    assert broken != html
    script = "<script>console.error('here')</script></body>"
    seen = chromium.look(broken.replace("</body>", script), width=1280)
    assert any("leaves its plot" in problem for problem in seen.problems)
    assert len(seen.console) == 1 and "here" in seen.console[0]


def test_there_is_a_picture(chromium: Chromium) -> None:
    """Every browser of the list takes one, which is what people look at."""
    png = chromium.picture(page(report(small())), width=1280, height=900)
    assert png.startswith(b"\x89PNG")
    assert len(png) > 10_000
