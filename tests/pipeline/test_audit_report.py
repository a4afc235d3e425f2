"""What an audit's report says: table, sentences, JSON, page."""

import json
import re
from html.parser import HTMLParser
from typing import Final
from xml.etree import ElementTree

import pytest

from odradek.pipeline.audit_compare import State
from odradek.pipeline.audit_page import page
from odradek.pipeline.audit_plots import COLUMNS_MAX, PARTITIONS_MAX, range_map
from odradek.pipeline.audit_report import Note, Report, sentences, table, to_json, verdict
from tests.pipeline.audit_model import Model, Record, audited

VOID: Final = {"meta", "br"}


def records(count: int = 20, partitions: int = 2) -> tuple[Record, ...]:
    return tuple(Record(p, offset, f"{p} {offset}") for p in range(partitions)
                 for offset in range(count))  # fmt: skip


def report(right: tuple[Record, ...], *notes: Note, size: int = 5) -> Report:
    broker = Model("broker", records(), {}, {0: 20, 1: 20})
    archive = Model("archive", right, {}, {0: 18, 1: 20}, late=State.BEHIND)
    comparison = audited(broker, archive, size)
    names = {"broker": "t at <here>:9092", "archive": "/data/archive"}
    return Report(("t",), names, size, False, (comparison,), notes, 1_700_000_000_000)


@pytest.fixture
def different() -> Report:
    """Partition 0: offset 3 is lost, 7 is doubled, 18 and 19 are not there yet."""
    kept = [one for one in records() if one.partition or one.offset not in (3, 18, 19)]
    return report((*kept, Record(0, 7, "0 7")), Note("the disk is <full>", differs=True))


@pytest.fixture
def behind() -> Report:
    """Partition 0: offsets 18 and 19 are not there yet."""
    return report(tuple(one for one in records() if one.partition or one.offset < 18))


@pytest.fixture
def equal() -> Report:
    return report(records(), Note("nothing of note"))


def test_the_table_has_a_column_for_each_kind_that_was_found(different: Report) -> None:
    columns, rows = table(different.comparisons[0])
    assert columns == ["topic", "partition", "broker", "archive", "doubled in the archive",
                       "not in the archive yet", "missing in the archive", "absent in both",
                       "checksum", ""]  # fmt: skip
    assert [row[:8] for row in rows] == [
        ["t", 0, 20, 18, 1, 2, 1, 0],
        ["t", 1, 20, 20, 0, 0, 0, 0],
    ]
    assert [row[-1] for row in rows] == ["different", "equal"]
    assert " ≠ " in str(rows[0][-2])
    assert re.fullmatch("[0-9a-f]{8}", str(rows[1][-2]))


def test_sentences_name_the_offsets(different: Report) -> None:
    assert list(sentences(different)) == [
        "broker/archive t-0 offsets 3..3: 1 missing in the archive",
        "broker/archive t-0 offsets 7..7: 1 doubled in the archive",
        "broker/archive t-0 offsets 18..19: 2 not in the archive yet",
        "different: the disk is <full>",
        "broker and archive are DIFFERENT: 40 records in 2 partitions",
    ]


def test_what_is_not_there_yet_is_no_difference(behind: Report) -> None:
    _, rows = table(behind.comparisons[0])
    assert [row[-1] for row in rows] == ["behind", "equal"]
    assert list(sentences(behind)) == [
        "broker/archive t-0 offsets 18..19: 2 not in the archive yet",
        "archive is BEHIND: 2 records are not there yet, all others are equal:"
        " 40 records in 2 partitions",
    ]
    document = to_json(behind)
    assert (document["equal"], document["state"]) == (False, "behind")
    html = page(behind)
    assert '<span class="late">…</span> archive is BEHIND' in html
    assert "of 8 ranges are behind" in html
    assert '<td class="late">behind</td>' in html and 'class="bad"' not in html


def test_a_difference_in_a_note_is_one(equal: Report) -> None:
    assert verdict(equal) == "broker and archive are equal: 40 records in 2 partitions"
    assert report(records(), Note("a file is lost", differs=True)).state is State.DIFFERENT


def test_the_json_says_all_of_it(different: Report) -> None:
    document = json.loads(json.dumps(to_json(different)))
    assert (document["version"], document["equal"]) == (1, False)
    assert document["state"] == document["comparisons"][0]["state"] == "different"
    first, second = document["comparisons"][0]["partitions"]
    assert second["equal"] and second["left"] == second["right"]
    assert first["left"]["records"] == 20
    assert len(first["left"]["checksum"]) == 32
    assert first["counts"] == [
        {"what": "doubled", "side": "archive", "count": 1},
        {"what": "late", "side": "archive", "count": 2},
        {"what": "missing", "side": "archive", "count": 1},
    ]
    ranges = [(one["start_offset"], one["end_offset"], one["equal"]) for one in first["ranges"]]
    assert [one["state"] for one in first["ranges"]][-2:] == ["equal", "behind"]
    assert ranges == [(0, 5, False), (5, 10, False), (10, 15, True), (15, 20, False)]


class Balanced(HTMLParser):
    """Whether every element is closed, and what it asks of the outside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.outside += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "onload")]
        if tag in ("script", "link", "img", "iframe"):
            self.outside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(
    different: Report, behind: Report, equal: Report
) -> None:
    for one in (different, behind, equal):
        html = page(one)
        parser = Balanced()
        parser.feed(html)
        assert (parser.open, parser.outside) == ([], [])
        assert "url(" not in html and "@import" not in html
        assert "&lt;here&gt;" in html and "<here>" not in html
        assert verdict(one) in html
        assert "prefers-color-scheme: dark" in html
    assert "the disk is &lt;full&gt;" in page(different)


def test_the_map_has_a_cell_for_each_range(different: Report) -> None:
    svg = ElementTree.fromstring(range_map(different.comparisons[0]))
    cells = [cell.get("class") for cell in svg.iter("rect")]
    assert cells == ["missing", "doubled", "equal", "behind"] + ["equal"] * 4
    told = [title.text for title in svg.iter("title")]
    assert "offsets 0 to 4\n1 missing in the archive" in told
    assert "offsets 10 to 14\n5 records, equal" in told


def test_what_is_excused_does_not_look_like_a_difference() -> None:
    broker = Model("broker", records()[10:], {0: 10}, {})
    comparison = audited(broker, Model("archive", records(), {}, {}), 5)
    svg = ElementTree.fromstring(range_map(comparison))
    cells = [cell.get("class") for cell in svg.iter("rect")]
    assert cells == ["excused"] * 2 + ["equal"] * 6


def test_a_map_of_much_shows_the_worst_of_what_it_puts_together() -> None:
    whole = records(count=2000, partitions=1)
    kept = tuple(one for one in whole if one.offset != 999)
    comparison = audited(Model("broker", whole, {}, {}), Model("archive", kept, {}, {}), 1)
    svg = ElementTree.fromstring(range_map(comparison))
    cells = [cell.get("class") for cell in svg.iter("rect")]
    assert len(cells) == COLUMNS_MAX
    assert cells.count("missing") == 1


def test_partitions_that_differ_are_in_the_plot() -> None:
    whole = records(count=2, partitions=PARTITIONS_MAX + 40)
    comparison = audited(Model("broker", whole, {}, {}), Model("archive", whole[:-1], {}, {}), 5)
    labels = re.findall(r"<title>(t-\d+)</title>", range_map(comparison))
    assert len(labels) == PARTITIONS_MAX
    assert labels[-1] == f"t-{PARTITIONS_MAX + 39}"
    assert "and 40 more partitions" in page(
        Report(("t",), {"broker": "", "archive": ""}, 5, False, (comparison,), (), 0)
    )
