"""The table of watches keeps nothing that has ended."""

from odradek.broker.coordination.interface import EventKind, WatchEvent
from odradek.broker.coordination.watches import Watches


def ignore(_: WatchEvent) -> None:
    pass


def other(_: WatchEvent) -> None:
    pass


def test_fired_watches_are_used_up() -> None:
    watches = Watches()
    watches.watch_data(1, "/a", ignore)
    watches.watch_children(1, "/a", ignore)
    watches.watch_children(2, "/a", other)
    deleted, child = WatchEvent(EventKind.DELETED, "/a"), WatchEvent(EventKind.CHILD, "/")
    assert list(watches.take([deleted, child])) == [(1, ignore, deleted), (2, other, deleted)]
    assert len(watches) == 0


def test_an_ended_session_leaves_nothing() -> None:
    watches = Watches()
    for session_id in (1, 2):
        watches.watch_data(session_id, "/a", ignore)
        watches.watch_children(session_id, "/a", ignore)
        watches.watch_data(session_id, f"/{session_id}", ignore)
    assert len(watches) == 6
    watches.end_session(1)
    assert len(watches) == 3
    watches.end_session(2)
    assert len(watches) == 0
