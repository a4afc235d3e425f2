"""What the comparisons accept, and how they show a difference."""

from dataclasses import fields
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.testing import Expected, assert_records
from odradek.testing.comparing import SHOWN_MAX
from odradek.testing.journal import Journal, Request
from odradek.testing.records import Header, Record


def record(
    value: bytes | None, offset: int = 0, key: bytes | None = None, headers: tuple[Header, ...] = ()
) -> Record:
    return Record(0, offset, 1000, key, value, headers)


ONE = record(b"one", 0, b"k", headers=(("h", b"1"), ("i", None)))
TWO = record(b'{"id": 2, "tags": ["a", "b"]}', 1)
GONE = record(None, 2)


def difference(records: list[Record], expected: list[object], **how: bool) -> str:
    with pytest.raises(AssertionError) as raised:
        assert_records(records, expected, **how)
    return str(raised.value)


@pytest.mark.parametrize(
    "expected",
    [
        ["one", {"id": 2, "tags": ["a", "b"]}, None],
        [b"one", ANY, Expected()],
        [Expected("one", key="k", headers={"h": "1"}), {"id": ANY, "tags": ANY}, Expected(None)],
        [Expected(headers=[("h", "1"), ("i", None)]), Expected(offset=1), Expected(partition=0)],
        [Expected(timestamp=1000), Expected({"id": pytest.approx(2.0), "tags": ["a", "b"]}), ANY],
    ],
)
def test_what_fits(expected: list[object]) -> None:
    assert_records([ONE, TWO, GONE], expected)
    assert_records([TWO, GONE, ONE], expected, in_order=False)


def test_a_difference_shows_both_and_what_is_around() -> None:
    said = difference([ONE, TWO, GONE], ["one", {"id": 3, "tags": ["a"], "x": 1}, None])
    assert said.splitlines() == [
        "the records differ (- expected, + found):",
        "    0/0 key='k' value='one' headers=[('h', b'1'), ('i', None)]",
        "  - value={'id': 3, 'tags': ['a'], 'x': 1}",
        '  + 0/1 value=\'{"id": 2, "tags": ["a", "b"]}\'',
        "      value.x: missing",
        "      value.id: expected 3, found 2",
        "      value.tags: expected ['a'], found ['a', 'b']",
        "    0/2 value=None",
    ]


def test_missing_and_surplus_records_do_not_shift_the_rest() -> None:
    said = difference([ONE, TWO], ["one", "lost", ANY])
    assert said.splitlines()[0] == "there are 2 records instead of 3 records (- expected, + found):"
    assert [line for line in said.splitlines() if line.startswith("  -")] == ["  - value='lost'"]
    assert "  +" not in said
    said = difference([ONE, GONE, TWO], ["one", {"id": 2, "tags": ["a", "b"]}])
    assert [line for line in said.splitlines() if line[2] in "+-"] == ["  + 0/2 value=None"]


def test_each_kind_of_difference() -> None:
    assert "header h: expected '2', found '1'" in difference([ONE], [Expected(headers={"h": b"2"})])
    assert "headers: there is no 'x'" in difference([ONE], [Expected(headers={"x": ""})])
    assert "headers: expected [('h', b'1')]" in difference([ONE], [Expected(headers=[("h", "1")])])
    assert "value: 'one' is not JSON" in difference([ONE], [[1]])
    assert "key: expected 'other', found 'k'" in difference([ONE], [Expected(key="other")])
    assert "value: expected b'\\xff', found 'one'" in difference([ONE], [b"\xff"])
    assert "value[0]: expected True, found 1" in difference([record(b"[1]")], [[True]])


def test_in_any_order_a_free_choice_takes_nothing_from_a_strict_one() -> None:
    assert_records([ONE, GONE], [ANY, "one"], in_order=False)
    said = difference([ONE, GONE], ["one", "one"], in_order=False)
    assert "  - value='one'" in said and "  + 0/2 value=None" in said


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=12), st.data())
def test_only_what_is_equal_fits(values: list[bytes], data: st.DataObject) -> None:
    records = [record(value, offset) for offset, value in enumerate(values)]
    assert_records(records, values)
    other = data.draw(st.permutations(values))
    assert_records(records, other, in_order=False)
    if [*other] != values:
        assert "the records differ" in difference(records, [*other])


def test_a_long_difference_is_cut() -> None:
    said = difference([record(b"%d" % i, i) for i in range(1000)], [ANY] * 990 + ["x"] * 9)
    assert "there are 1000 records instead of 999 records" in said
    said = difference([record(b"x", i) for i in range(500)], ["y"] * 500)
    assert len(said.splitlines()) == SHOWN_MAX + 2 and said.endswith("lines more")
    assert "(1000 characters)" not in difference([record(b"x" * 998)], ["y"])[:200]


class Asked:
    """A client of an admin API with one request."""

    def get(self, *segments: object, **query: object) -> object:
        request: dict[str, object] = dict.fromkeys(field.name for field in fields(Request))
        request |= {"number": 1, "api": "Metadata", "client_id": "app", "topics": ["t"]}
        request |= {"at_ms": 1, "faults": []}
        return {"requests": [request] if query["api"] in (None, "Metadata") else []}


def test_requests_that_did_not_come_show_what_came() -> None:
    journal = Journal([Asked()])  # type: ignore[list-item]
    assert len(journal.assert_requests("Metadata", client_id="app")) == 1
    assert len(journal.assert_requests("Metadata", count=1)) == 1
    assert journal.assert_requests("Produce", count=0) == []
    with pytest.raises(
        AssertionError, match=r"Produce of app\*: 0, not any. What came:\n  Metadata"
    ):
        journal.assert_requests("Produce", client_id="app*")
    with pytest.raises(AssertionError, match="Metadata: 1, not 2"):
        journal.assert_requests("Metadata", count=2)
