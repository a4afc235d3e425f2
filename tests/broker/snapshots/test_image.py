"""What to undo to return to a snapshot, and what can't be undone."""

from collections.abc import Mapping

import pytest

from odradek.broker.snapshots.image import CannotUndo, Image, LogMark, Undo, undo_of

MARK = LogMark(b"i" * 16, 0, 5, ((0, 100), (3, 50)), 1)
NODES = {
    "/brokers/topics": b"",
    "/brokers/topics/seed": b"its id",
    "/brokers/topics/seed/partitions/0/state": b"epoch 0",
    "/config/topics/seed": b"{}",
    "/config/users": b"",
    "/controller_epoch": b"1",
}
THEN = Image(NODES, {0: {("seed", 0): MARK}})


def now(
    nodes: Mapping[str, bytes | None] = {}, *, marks: dict[tuple[str, int], LogMark] | None = None
) -> Image:
    """The image with other nodes (None: without) and marks."""
    changed = {**NODES, **nodes}
    return Image(
        {path: data for path, data in changed.items() if data is not None},
        {0: {("seed", 0): MARK} if marks is None else marks},
    )


def test_nothing_has_changed() -> None:
    assert undo_of(THEN, now()) == Undo((), (), {0: {}})
    assert undo_of(THEN, now({"/controller_epoch": b"2"})) == Undo((), (), {0: {}})
    assert undo_of(THEN, now({"/config/changes/config_change_1": b"x"})).dropped_topics == ()


def test_new_topics_are_dropped_children_first() -> None:
    added = {
        "/brokers/topics/a": b"",
        "/brokers/topics/a/partitions": b"",
        "/config/topics/a": b"",
        "/config/topics/half-made": b"",
    }
    more = {("seed", 0): MARK, ("a", 0): MARK}
    undo = undo_of(THEN, now(added, marks=more))
    assert undo.dropped_topics == ("a", "half-made")
    assert set(undo.dropped_paths) == added.keys()
    assert undo.dropped_paths.index("/brokers/topics/a/partitions") < undo.dropped_paths.index(
        "/brokers/topics/a"
    )
    assert undo.rewound_count == 0


@pytest.mark.parametrize(
    "found",
    [
        MARK._replace(log_end_offset=6, segments=((0, 100), (3, 60))),
        MARK._replace(log_end_offset=9, segments=((0, 100), (3, 50), (5, 90))),
    ],
)
def test_logs_that_have_grown_are_rewound(found: LogMark) -> None:
    undo = undo_of(THEN, now(marks={("seed", 0): found}))
    assert undo.rewound == {0: {("seed", 0): MARK}}
    assert undo.rewound_count == 1


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (MARK._replace(topic_id=b"j" * 16), "seed-0 has another log"),
        (MARK._replace(log_end_offset=6, replica_count=3), "seed-0 has grown, and has several"),
        (MARK._replace(log_start_offset=2), "records of seed-0 were deleted or compacted"),
        (MARK._replace(segments=((3, 50),)), "records of seed-0 were deleted"),
        (MARK._replace(segments=((0, 90), (3, 50))), "records of seed-0 were deleted"),
        (MARK._replace(segments=((0, 100), (3, 40))), "records of seed-0 were deleted"),
        (MARK._replace(log_end_offset=4), "records of seed-0 were deleted"),
    ],
)
def test_other_changes_of_logs_cannot_be_undone(found: LogMark, what: str) -> None:
    with pytest.raises(CannotUndo, match=what):
        undo_of(THEN, now(marks={("seed", 0): found}))


@pytest.mark.parametrize(
    ("path", "data", "what"),
    [
        ("/config/users/alice", b"quota", "the store's /config/users/alice has changed"),
        ("/config/users", None, "the store's /config/users has changed"),
        ("/config/topics/seed", b"changed", r"topic seed was changed \(/config/topics/seed\)"),
        ("/brokers/topics/seed", None, "topic seed was deleted"),
        ("/brokers/topics/seed", b"another id", "topic seed was changed"),
        ("/brokers/topics/seed/partitions/1", b"", "topic seed was changed"),
        ("/brokers/topics/seed/partitions/0/state", b"epoch 1", "topic seed was changed"),
    ],
)
def test_other_changes_of_the_store_cannot_be_undone(
    path: str, data: bytes | None, what: str
) -> None:
    with pytest.raises(CannotUndo, match=what):
        undo_of(THEN, now({path: data}))


def test_other_brokers_and_lost_logs() -> None:
    with pytest.raises(CannotUndo, match="other brokers run"):
        undo_of(THEN, Image(NODES, {0: {("seed", 0): MARK}, 1: {}}))
    with pytest.raises(CannotUndo, match="seed-0 has another log"):
        undo_of(THEN, now(marks={}))
