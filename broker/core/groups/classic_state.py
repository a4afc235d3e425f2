"""The states of a classic group, and the transitions between them.

Empty                has no members; may hold offsets
PreparingRebalance   members are told to join again
CompletingRebalance  all have joined; the leader's assignment is awaited
Stable               members have their assignments
Dead                 deleted, converted, or moved to another coordinator
"""

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """A state; the value is the name that Kafka's tools show."""

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
"""The states that may follow each state; any other transition is a bug in the broker."""


class Phase(Enum):
    """The keys of the group's own deadlines; those of members have the member id as key."""

    JOIN = "join"
    SYNC = "sync"
