"""Who leads a new partition, and who after an election."""

import pytest

from odradek.broker.core.elections import ElectionType, Leadership, elect, first_leader
from odradek.broker.core.partition_state import NO_LEADER, PartitionState
from odradek.protocol.errors import ErrorCode, Refused


@pytest.mark.parametrize(
    ("replicas", "live", "expected"),
    [
        ((1,), {1}, Leadership(1, (1,))),
        ((2, 1, 3), {1, 2, 3}, Leadership(2, (2, 1, 3))),
        ((2, 1, 3), {3, 1}, Leadership(1, (1, 3))),
        ((2, 1), {3}, Leadership(NO_LEADER, ())),
        ((), {1}, Leadership(NO_LEADER, ())),
    ],
)
def test_the_first_live_replica_leads(
    replicas: tuple[int, ...], live: set[int], expected: Leadership
) -> None:
    assert first_leader(replicas, live) == expected


def _state(leader: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState("t", bytes(16), 0, leader, 5, isr, (1, 2, 3), 7, 1)


PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
NOT_PREFERRED = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
NOBODY = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("kind", "state", "live", "expected"),
    [
        (PREFERRED, _state(1, (1, 2)), {1, 2, 3}, NOT_NEEDED),
        (PREFERRED, _state(1, (1, 2)), {2, 3}, NOT_NEEDED),
        (PREFERRED, _state(2, (2, 1)), {1, 2, 3}, Leadership(1, (2, 1))),
        (PREFERRED, _state(2, (2, 1)), {2, 3}, NOT_PREFERRED),
        (PREFERRED, _state(2, (2, 3)), {1, 2, 3}, NOT_PREFERRED),
        (PREFERRED, _state(NO_LEADER, (1,)), {1}, Leadership(1, (1,))),
        (PREFERRED, None, {1}, NOT_PREFERRED),
        (UNCLEAN, _state(2, (2,)), {2}, NOT_NEEDED),
        (UNCLEAN, _state(2, (2, 3)), {1, 3}, Leadership(3, (3,))),
        (UNCLEAN, _state(NO_LEADER, (2,)), {3}, Leadership(3, (3,), is_unclean=True)),
        (UNCLEAN, _state(NO_LEADER, (3, 2)), {1, 2, 3}, Leadership(2, (3, 2))),
        (UNCLEAN, _state(2, (2,)), {1, 3}, Leadership(1, (1,), is_unclean=True)),
        (UNCLEAN, _state(NO_LEADER, (2,)), {9}, NOBODY),
        (UNCLEAN, None, {1}, NOBODY),
    ],
)
def test_an_election(
    kind: ElectionType,
    state: PartitionState | None,
    live: set[int],
    expected: Leadership | ErrorCode,
) -> None:
    if isinstance(expected, Leadership):
        assert elect(state, kind, live) == expected
        return
    with pytest.raises(Refused) as refused:
        elect(state, kind, live)
    assert refused.value.code == expected
