"""Who leads a new partition."""

import pytest

from odradek.broker.core.elections import Leadership, first_leader
from odradek.broker.core.partition_state import NO_LEADER


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
