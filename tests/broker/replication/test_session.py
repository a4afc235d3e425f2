"""What a follower says in its session: what has changed, and all when it begins anew."""

from odradek.broker.core.fetch_session import EPOCH_INITIAL
from odradek.broker.replication.session import FetcherSession, Key, Telling
from odradek.protocol.errors import ErrorCode

A: Key = ("t", 0)
B: Key = ("t", 1)


def opened() -> FetcherSession:
    session = FetcherSession()
    assert session.tell({A: (1,), B: (1,)}, by_id=False).is_full
    session.answered(7)
    return session


def test_only_what_changed_is_said_again() -> None:
    session = opened()
    assert session.tell_again({A: (2,), B: (1,)}) == Telling(7, 1, [A], [])
    session.answered(7)
    assert session.told == {A: (2,), B: (1,)}
    assert session.tell_again({B: (3,)}) == Telling(7, 2, [B], [])
    session.answered(7)
    assert session.tell_again({}) == Telling(7, 3, [], [])
    session.answered(7)
    assert session.tell({A: (2,)}, by_id=False) == Telling(7, 4, [], [B])


def test_all_is_said_to_a_leader_without_a_session() -> None:
    session = opened()
    session.answered(0)
    assert session.tell_again({A: (2,)}) == Telling(0, EPOCH_INITIAL, [A, B], [])
    assert session.told == {A: (2,), B: (1,)}


def test_all_is_said_after_a_failure() -> None:
    session = opened()
    session.failed(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert session.tell({A: (1,)}, by_id=False) == Telling(7, EPOCH_INITIAL, [A], [])
