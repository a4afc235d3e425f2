"""Where offsets move to, and the grammar of --topic."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.group_offsets import (
    Known,
    Move,
    Partition,
    Target,
    by_topic,
    parse_topic,
    plan,
)

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
READ = Known(start=10, end=20, committed=15, at_time=12)
UNREAD = Known(start=10, end=20, committed=None)
EXPIRED = Known(start=10, end=20, committed=3)


def only(target: Target, known: Known) -> Move:
    (move,) = plan(target, {A0: known})
    assert (move.partition, move.committed) == (A0, known.committed)
    return move


@pytest.mark.parametrize(
    ("target", "known", "new", "notice"),
    [
        (Target("earliest"), READ, 10, ""),
        (Target("latest"), READ, 20, ""),
        (Target("current"), READ, 15, ""),
        (Target("current"), UNREAD, 20, "nothing is committed: moves to the end"),
        (Target("current"), EXPIRED, 10, "3 is before the log's start: moves to 10"),
        (Target("offset", 11), READ, 11, ""),
        (Target("offset", 20), UNREAD, 20, ""),
        (Target("offset", 9), READ, 10, "9 is before the log's start: moves to 10"),
        (Target("offset", 21), READ, 20, "21 is past the log's end: moves to 20"),
        (Target("shift", -5), READ, 10, ""),
        (Target("shift", -6), READ, 10, "9 is before the log's start: moves to 10"),
        (Target("shift", 6), READ, 20, "21 is past the log's end: moves to 20"),
        (Target("shift", 0), READ, 15, ""),
        (Target("shift", 1), UNREAD, None, "nothing is committed that could be shifted"),
        (Target("time"), READ, 12, ""),
        (Target("time"), UNREAD, 20, "no record is as late as that: moves to the end"),
    ],
)
def test_one_partition(target: Target, known: Known, new: int | None, notice: str) -> None:
    move = only(target, known)
    assert (move.new, move.notice) == (new, notice)


def test_partitions_come_in_order() -> None:
    known: Mapping[Partition, Known] = {B0: READ, A1: READ, A0: READ}
    assert [move.partition for move in plan(Target("latest"), known)] == [A0, A1, B0]
    assert by_topic(list(known)) == {"a": [0, 1], "b": [0]}


offsets = st.integers(0, 1 << 62)


@pytest.mark.slow
@given(
    target=st.builds(Target, st.sampled_from(["offset", "shift", "current", "time"]), offsets),
    start=offsets,
    size=offsets,
    committed=st.none() | offsets,
    at_time=st.none() | offsets,
)
def test_no_offset_leaves_the_log(
    target: Target, start: int, size: int, committed: int | None, at_time: int | None
) -> None:
    move = only(target, Known(start, start + size, committed, at_time))
    if move.new is None:
        assert target.kind == "shift" and committed is None
    else:
        assert start <= move.new <= start + size


@pytest.mark.parametrize(
    ("text", "meant"),
    [("t", ("t", None)), ("t:0", ("t", [0])), ("t:3,0,3", ("t", [0, 3])), ("a.b", ("a.b", None))],
)
def test_topics(text: str, meant: tuple[str, list[int] | None]) -> None:
    assert parse_topic(text) == meant


@pytest.mark.parametrize("text", ["", ":", ":1", "t:", "t:a", "t:1,", "t:-1", "t:2147483648"])
def test_what_is_no_topic(text: str) -> None:
    with pytest.raises(ValueError, match="is not like TOPIC"):
        parse_topic(text)
