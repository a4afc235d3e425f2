"""The states of a classic group, and how it may go from one to another.

Empty                no member; may keep offsets
PreparingRebalance   members are asked to join again
CompletingRebalance  all have joined; the leader is to bring the assignment
Stable               assigned
Dead                 gone, or moved to another coordinator
"""

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """A state, by the name that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

TRANSITIONS: Final[dict[ClassicState, frozenset[ClassicState]]] = {
    _EMPTY: frozenset({_PREPARING, _DEAD}),
    _PREPARING: frozenset({_EMPTY, _COMPLETING, _DEAD}),
    _COMPLETING: frozenset({_PREPARING, _STABLE, _DEAD}),
    _STABLE: frozenset({_PREPARING, _DEAD}),
    _DEAD: frozenset({_DEAD}),
}
"""To which states each may lead; anything else is a bug of ours."""


class Phase(Enum):
    """The deadlines of the whole group; those of its members are kept by member id."""

    JOIN = "join"
    SYNC = "sync"
