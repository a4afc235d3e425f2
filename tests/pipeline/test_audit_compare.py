"""The pure comparison against a naive one, and each kind of damage by itself."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.pipeline.audit_compare import (
    Checksum,
    Comparison,
    Digest,
    Finding,
    Place,
    Side,
    State,
    What,
    compare,
    range_size,
    suspects,
)
from odradek.pipeline.offsets import TopicPartition
from tests.pipeline.audit_model import TOPIC, Model, Record, audited, checksum, naive_state

SIZE = 4
EDITS = st.sampled_from(["keep"] * 6 + ["drop", "double", "change", "swap", "type"])


def whole(count: int = 12, partition: int = 0) -> tuple[Record, ...]:
    return tuple(Record(partition, offset, f"record {offset}") for offset in range(count))


def model(name: str, records: tuple[Record, ...], **rest: Any) -> Model:
    return Model(name, records, **{"starts": {}, "ends": {}, **rest})


def counts(comparison: Comparison) -> dict[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for part in comparison.partitions:
        found.update(part.counts)
    return dict(found)


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[Model, Model]:
    """A log with holes, and what became of it somewhere else."""
    offsets = sorted(draw(st.sets(st.tuples(st.integers(0, 1), st.integers(0, 15)))))
    left = [Record(*where, draw(st.sampled_from("abc"))) for where in offsets]
    right = []
    for record, edit in zip(left, draw(st.lists(EDITS, min_size=len(left))), strict=False):
        if edit == "drop":
            continue
        kept = record._replace(content="d") if edit == "change" else record
        right += [kept, kept] if edit == "double" else [kept]
        if edit == "swap" and len(right) > 1 and right[-2].partition == kept.partition:
            first, second = right[-2:]
            right[-2:] = [
                first._replace(content=second.content),
                second._replace(content=first.content),
            ]
    removed = draw(st.integers(0, 6))
    bounds = st.dictionaries(st.integers(0, 1), st.integers(0, 16))
    return (
        model(
            "l",
            tuple(left[removed:]),
            starts=draw(bounds),
            ends=draw(bounds),
            early_differs=draw(st.booleans()),
        ),
        model(
            "r",
            tuple(right),
            starts=draw(bounds),
            ends=draw(bounds),
            early_differs=draw(st.booleans()),
            late=draw(st.sampled_from(State)),
        ),
    )


@pytest.mark.slow
@given(spoiled(), st.integers(1, 8))
def test_it_says_what_a_naive_comparison_says(sides: tuple[Model, Model], size: int) -> None:
    comparison = audited(*sides, size)
    assert comparison.state == naive_state(*sides)
    for partition in comparison.partitions:
        held = [{r.offset for r in side.records if r.partition == partition.partition.partition}
                for side in sides]  # fmt: skip
        either = held[0] | held[1]
        span = max(either) - min(either) + 1 if either else 0
        assert partition.absent_count == span - len(either)
        assert sum(part.left.count for part in partition.ranges if part.left) == len(held[0])


@pytest.mark.slow
@given(spoiled())
def test_size_of_ranges_makes_no_difference(sides: tuple[Model, Model]) -> None:
    fine, coarse = audited(*sides, 1), audited(*sides, 100)
    assert fine.state == coarse.state
    changed = (What.CHANGED, What.MOVED)

    def plain(comparison: Comparison) -> Counter[tuple[str, str]]:
        # Whether changed records only moved is known within a range only.
        found: Counter[tuple[str, str]] = Counter()
        for (what, side), count in counts(comparison).items():
            found["changed" if what in changed else what, side] += count
        return found

    assert plain(fine) == plain(coarse)


@pytest.mark.parametrize("offset", [0, 3, 4, 11])
def test_each_kind_of_damage_has_its_name(offset: int) -> None:
    records = whole()
    left = model("broker", records)
    rest = tuple(record for record in records if record.offset != offset)
    changed = (*rest, records[offset]._replace(content="recore"))
    for right, expected in (
        (rest, {(What.MISSING, "archive"): 1}),
        ((*records, records[offset]), {(What.DOUBLED, "archive"): 1}),
        (changed, {(What.CHANGED, ""): 1}),
    ):
        comparison = audited(left, model("archive", right), SIZE)
        assert (comparison.state, counts(comparison)) == (State.DIFFERENT, expected)
        places = [one.place.start for part in comparison.partitions for one in part.ranges
                  if one.state is State.DIFFERENT]  # fmt: skip
        assert places == [offset - offset % SIZE]


def test_two_records_at_each_others_offsets_have_moved() -> None:
    records = list(whole())
    records[1], records[2] = (
        records[1]._replace(content=records[2].content),
        records[2]._replace(content=records[1].content),
    )
    comparison = audited(model("broker", whole()), model("archive", tuple(records)), SIZE)
    assert counts(comparison) == {(What.MOVED, ""): 2}
    assert comparison.state is State.DIFFERENT


def test_what_retention_removed_differs_only_when_strict() -> None:
    for strict in (False, True):
        broker = model("broker", whole()[5:], starts={0: 5}, ends={0: 12}, early_differs=strict)
        comparison = audited(broker, model("archive", whole(), early_differs=True), SIZE)
        assert counts(comparison) == {(What.REMOVED, "broker"): 5}
        assert (comparison.state is State.DIFFERENT) is strict


def test_a_record_lost_above_the_log_start_differs() -> None:
    broker = model("broker", (*whole()[5:7], *whole()[8:]), starts={0: 5}, ends={0: 12})
    comparison = audited(broker, model("archive", whole()), SIZE)
    assert counts(comparison)[What.MISSING, "broker"] == 1
    assert comparison.state is State.DIFFERENT


def test_an_archive_that_only_lacks_the_end_is_behind_or_equal() -> None:
    broker = model("broker", whole(), ends={0: 12})
    for late in State:
        archive = model("archive", whole(9), ends={0: 9}, late=late)
        comparison = audited(broker, archive, SIZE)
        assert counts(comparison) == {(What.LATE, "archive"): 3}
        assert comparison.state is late


def test_one_difference_is_enough_beside_what_is_behind() -> None:
    kept = tuple(record for record in whole(9) if record.offset != 4)
    archive = model("archive", kept, ends={0: 9}, late=State.BEHIND)
    comparison = audited(model("broker", whole()), archive, SIZE)
    assert comparison.state is State.DIFFERENT
    states = [one.state for part in comparison.partitions for one in part.ranges]
    assert states == [State.EQUAL, State.DIFFERENT, State.BEHIND]


def test_offsets_that_nobody_has_are_no_gaps() -> None:
    records = whole()[:3] + whole()[7:]
    comparison = audited(model("broker", records), model("archive", records), SIZE)
    assert (comparison.state, counts(comparison)) == (State.EQUAL, {})
    assert comparison.partitions[0].absent_count == 4


def test_order_and_timestamp_types_differ_by_themselves() -> None:
    place = Place(TOPIC, 0, 0)
    one = Digest(2, 0, 1, Checksum(1, 1), Checksum(2, 2), types=Checksum(3, 3))
    other = Digest(2, 0, 1, Checksum(1, 1), Checksum(2, 2), types=Checksum(4, 4), disordered=1)
    left, right = Side("broker", {place: one}), Side("copy", {place: other})
    assert suspects(left, right, types=True) == {place}
    assert suspects(left, right, types=False) == set()
    comparison = compare(left, right, [], size=SIZE)
    assert counts(comparison) == {(What.DISORDERED, "copy"): 1}
    assert comparison.state is State.DIFFERENT


def test_partitions_without_records_are_listed() -> None:
    left = model("broker", (), starts={0: 0, 1: 7}, ends={0: 0, 1: 7})
    comparison = audited(left, model("archive", ()), SIZE)
    assert [part.partition for part in comparison.partitions] == [
        TopicPartition(TOPIC, 0),
        TopicPartition(TOPIC, 1),
    ]
    assert comparison.state is State.EQUAL


def test_doubled_records_do_not_cancel_out_of_checksums() -> None:
    three = (*whole(1), *whole(1), *whole(1))
    assert (
        audited(model("broker", whole(1)), model("archive", three), SIZE).state is State.DIFFERENT
    )


@pytest.mark.slow
@given(st.lists(st.integers(0, 2**63), max_size=4))
def test_ranges_are_of_round_size_and_not_too_many(spans: list[int]) -> None:
    size = range_size(spans)
    assert size >= 1000
    assert str(size).rstrip("0") in ("1", "2", "5")
    assert max(spans, default=0) / size <= 64


def test_ranges_are_no_larger_than_they_need_be() -> None:
    spans = (0, 64_000, 64_001, 100_000, 1_000_000, 10**9)
    assert [range_size([span]) for span in spans] == [1000, 1000, 2000, 2000, 20_000, 20_000_000]


def test_the_checksum_of_a_partition_is_that_of_its_ranges() -> None:
    records = whole()
    (fine,) = audited(model("l", records), model("r", records), 3).partitions
    (coarse,) = audited(model("l", records), model("r", records), 100).partitions
    assert fine.left is not None
    assert fine.left == fine.right == coarse.left
    assert fine.left.content == checksum(record.content for record in records)
    assert len(str(fine.left.content)) == 32


def test_records_from_before_the_archive_differ_unless_lag_is_allowed() -> None:
    for early_differs in (True, False):
        archive = model("archive", whole()[5:], starts={0: 5}, early_differs=early_differs)
        comparison = audited(model("broker", whole()), archive, SIZE)
        assert counts(comparison) == {(What.REMOVED, "archive"): 5}
        assert (comparison.state is State.DIFFERENT) is early_differs


def test_another_timestamp_type_is_a_change_and_no_move() -> None:
    place = Place(TOPIC, 0, 0)
    one = Digest(1, 0, 0, Checksum(1, 1), Checksum(2, 2), types=Checksum(3, 3))
    other = Digest(1, 0, 0, Checksum(1, 1), Checksum(2, 2), types=Checksum(4, 4))
    found = [Finding(place, What.CHANGED, "", 1, 0, 0)]
    left, right = Side("broker", {place: one}), Side("archive", {place: other})
    assert counts(compare(left, right, found, size=SIZE)) == {(What.CHANGED, ""): 1}


def test_what_is_doubled_on_the_left_is_counted_once_for_the_holes() -> None:
    records = whole()[:3] + whole()[7:]
    doubled = (*records, *records[:2])
    comparison = audited(model("archive", doubled), model("copy", records), SIZE)
    assert counts(comparison) == {(What.DOUBLED, "archive"): 2}
    assert comparison.partitions[0].absent_count == 4
