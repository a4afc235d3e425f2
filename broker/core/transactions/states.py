"""The states of a transactional id, and what leads from one to the next.

A transaction begins with the first partition that is added to it. Its end is decided (Prepare), the
markers are written into all of its partitions, and then it is complete. The next transaction of the
same producer begins there.  A producer of version 2 may also abort one that has not begun.
"""

from enum import Enum, IntEnum, auto
from typing import Final


class TransactionState(IntEnum):
    """The numbers are those in the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Expired: a tombstone is being written."""
    PREPARE_EPOCH_FENCE = 7
    """Kafka's step between Ongoing and an abort that fences the producer; never written."""

    @property
    def kafka_name(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Event(Enum):
    """What happens to a transactional id."""

    PRODUCER_INITIALIZED = auto()
    PARTITIONS_ADDED = auto()
    COMMIT_DECIDED = auto()
    ABORT_DECIDED = auto()
    MARKERS_WRITTEN = auto()
    EXPIRED = auto()


_S, _E = TransactionState, Event
TRANSITIONS: Final = {
    (_S.EMPTY, _E.PRODUCER_INITIALIZED): _S.EMPTY,
    (_S.EMPTY, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.EMPTY, _E.ABORT_DECIDED): _S.PREPARE_ABORT,
    (_S.EMPTY, _E.EXPIRED): _S.DEAD,
    (_S.ONGOING, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.ONGOING, _E.COMMIT_DECIDED): _S.PREPARE_COMMIT,
    (_S.ONGOING, _E.ABORT_DECIDED): _S.PREPARE_ABORT,
    (_S.PREPARE_COMMIT, _E.MARKERS_WRITTEN): _S.COMPLETE_COMMIT,
    (_S.PREPARE_ABORT, _E.MARKERS_WRITTEN): _S.COMPLETE_ABORT,
    (_S.COMPLETE_COMMIT, _E.PRODUCER_INITIALIZED): _S.EMPTY,
    (_S.COMPLETE_COMMIT, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.COMPLETE_COMMIT, _E.ABORT_DECIDED): _S.PREPARE_ABORT,
    (_S.COMPLETE_COMMIT, _E.EXPIRED): _S.DEAD,
    (_S.COMPLETE_ABORT, _E.PRODUCER_INITIALIZED): _S.EMPTY,
    (_S.COMPLETE_ABORT, _E.PARTITIONS_ADDED): _S.ONGOING,
    (_S.COMPLETE_ABORT, _E.ABORT_DECIDED): _S.PREPARE_ABORT,
    (_S.COMPLETE_ABORT, _E.EXPIRED): _S.DEAD,
}
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The end is decided, and markers are being written."""
AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is under way."""


def next_state(state: TransactionState, event: Event) -> TransactionState:
    """The state after an event that is allowed; others are a bug of the caller."""
    return TRANSITIONS[state, event]
