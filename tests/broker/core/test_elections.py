"""Who leads a new partition, and who after an election."""

import pytest

from odradek.broker.core.elections import (
    Leadership,
    first_leader,
    leader_after_reassignment,
    leader_at_shutdown,
    leader_if_offline,
    lose_replica,
    preferred_leader,
)
from odradek.broker.core.partition_state import NO_LEADER, PartitionState


def _state(leader: int, *isr: int, is_recovering: bool = False) -> PartitionState:
    state = PartitionState("t", bytes(16), 0, leader, 5, isr, (1, 2, 3), 7, 1)
    return state._replace(is_recovering=is_recovering)


@pytest.mark.parametrize(
    ("online", "expected"),
    [
        ((1,), Leadership(1, (1,))),
        ((2, 1, 3), Leadership(2, (2, 1, 3))),
        ((), Leadership(NO_LEADER, ())),
    ],
)
def test_the_first_online_replica_leads(online: tuple[int, ...], expected: Leadership) -> None:
    assert first_leader(online) == expected


@pytest.mark.parametrize("allow_unclean", [True, False])
@pytest.mark.parametrize(
    ("state", "online", "expected"),
    [
        (_state(1, 1, 2), {2, 3}, Leadership(2, (2,))),
        (_state(1, 3, 2, 1), {2, 3}, Leadership(2, (3, 2))),
        (_state(1, 1, 3), {2, 3}, Leadership(3, (3,))),
        (_state(2, 2), {1, 2, 3}, Leadership(2, (2,))),
        (_state(1, 1, 2, is_recovering=True), {2}, Leadership(2, (2,), is_unclean=True)),
        (_state(1, 1), set(), None),
        (_state(1, 1), {9}, None),
    ],
)
def test_a_clean_election(
    state: PartitionState, online: set[int], expected: Leadership | None, allow_unclean: bool
) -> None:
    assert leader_if_offline(state, online, allow_unclean=allow_unclean) == expected


def test_an_unclean_election() -> None:
    state = _state(1, 1)
    assert leader_if_offline(state, {3, 2}, allow_unclean=False) is None
    assert leader_if_offline(state, {3, 2}, allow_unclean=True) == Leadership(2, (2,), True)


def test_a_leader_after_a_reassignment() -> None:
    state = _state(1, 1, 2, 3)
    assert leader_after_reassignment(state, (3, 2), {1, 2, 3}) == Leadership(3, (1, 2, 3))
    assert leader_after_reassignment(state, (3, 2), {1, 2}) == Leadership(2, (1, 2, 3))
    assert leader_after_reassignment(_state(1, 1), (3, 2), {1, 2, 3}) is None


def test_a_preferred_leader() -> None:
    assert preferred_leader(_state(2, 2, 1), {1, 2}) == Leadership(1, (2, 1))
    assert preferred_leader(_state(2, 2, 1), {2}) is None
    assert preferred_leader(_state(2, 2), {1, 2}) is None
    state = _state(NO_LEADER, 1, is_recovering=True)
    assert preferred_leader(state, {1}) == Leadership(1, (1,), is_unclean=True)


def test_a_leader_when_brokers_shut_down() -> None:
    state = _state(1, 1, 2, 3)
    assert leader_at_shutdown(state, {1, 2, 3}, {1}) == Leadership(2, (2, 3))
    assert leader_at_shutdown(state, {1, 2, 3}, {1, 2}) == Leadership(3, (3,))
    assert leader_at_shutdown(state, {1, 3}, {1}) == Leadership(3, (2, 3))
    assert leader_at_shutdown(state, {1, 2, 3}, {1, 2, 3}) is None
    assert leader_at_shutdown(_state(1, 1), {1, 2, 3}, {1}) is None


def test_a_replica_is_lost() -> None:
    assert lose_replica(_state(1, 1, 2), 2) == Leadership(1, (1,))
    assert lose_replica(_state(1, 1, 2), 1) == Leadership(NO_LEADER, (2,))
    assert lose_replica(_state(1, 1), 1) == Leadership(NO_LEADER, (1,))
    assert lose_replica(_state(1, 1, 4), 4) == Leadership(1, (1,))


def test_a_stranger_in_sync_is_not_the_last_one() -> None:
    """A reassignment has given 4 up, and nobody has taken it out yet: it can't be elected."""
    assert lose_replica(_state(1, 1, 4), 1) == Leadership(NO_LEADER, (1, 4))
    assert leader_if_offline(_state(NO_LEADER, 1, 4), (1,), allow_unclean=False) == Leadership(
        1, (1,)
    )
