"""How EndTxn is decided, by the version of transactions that its client speaks (KIP-890).

A client of version 1 keeps its epoch from one transaction to the next. If it asks again for the end
that its last transaction had, there is nothing to do.

A client of version 2 gets the next epoch with each end. So the epoch tells what it asks for: the
current one that another transaction ends, the one before that the answer was lost. It may abort a
transaction to which no partition was added; that raises its epoch as well.

Source: the tables in TransactionCoordinator of Kafka 4.3.
"""

from enum import Enum, auto
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

from ..effects import Producer
from .states import TransactionState as State
from .transaction import EPOCH_LAST, Snapshot

EPOCH_BUMP_VERSION_FIRST: Final = 2
"""Of transactions: from it on each end raises the epoch."""


class Ending(Enum):
    """What an EndTxn leads to."""

    DECIDE = auto()
    """The end is written, and the markers follow."""
    REPEAT = auto()
    """It was written before: answer as then."""


COMMIT, ABORT = True, False
VERSION_1: Final = {
    (State.ONGOING, COMMIT): Ending.DECIDE,
    (State.ONGOING, ABORT): Ending.DECIDE,
    (State.COMPLETE_COMMIT, COMMIT): Ending.REPEAT,
    (State.COMPLETE_ABORT, ABORT): Ending.REPEAT,
}
VERSION_2: Final = {
    (State.EMPTY, ABORT): Ending.DECIDE,
    (State.ONGOING, COMMIT): Ending.DECIDE,
    (State.ONGOING, ABORT): Ending.DECIDE,
    (State.COMPLETE_COMMIT, ABORT): Ending.DECIDE,
    (State.COMPLETE_ABORT, ABORT): Ending.DECIDE,
}
"""With the current epoch."""
VERSION_2_AGAIN: Final = {
    (State.COMPLETE_COMMIT, COMMIT): Ending.REPEAT,
    (State.COMPLETE_ABORT, ABORT): Ending.REPEAT,
}
"""With the epoch before; in other states it is fenced.  What is absent is INVALID_TXN_STATE."""
_COMPLETE: Final = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


def ending(known: Snapshot, producer: Producer, *, commits: bool, client_version: int) -> Ending:
    """What an EndTxn leads to while no transition is pending.

    `client_version`: the version of transactions that the client speaks.
    Raises: Refused (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE).
    """
    table = VERSION_1
    if client_version >= EPOCH_BUMP_VERSION_FIRST:
        table = VERSION_2
        if is_repeated(known, producer):
            table = VERSION_2_AGAIN
    if table is not VERSION_2_AGAIN:
        check_producer(known, producer)
    try:
        return table[known.state, commits]
    except KeyError:
        raise Refused(ErrorCode.INVALID_TXN_STATE) from None


def is_repeated(known: Snapshot, producer: Producer) -> bool:
    """Whether this producer has ended the last transaction, and may have missed the answer.

    If a client of version 1 has ended it, the epoch was raised by InitProducerId, for another
    producer: this one is fenced. Kafka 4.3 does not see that.
    """
    if known.state not in _COMPLETE or known.client_version < EPOCH_BUMP_VERSION_FIRST:
        return False
    producer_id, epoch = producer
    if known.producer_epoch == 0 and epoch == EPOCH_LAST:
        return producer_id == known.last_producer_id
    return producer_id == known.producer_id and epoch == known.producer_epoch - 1


def needs_next_producer_id(known: Snapshot | None, client_version: int) -> bool:
    """Whether the end of a transaction uses up the last epoch of its producer id."""
    return (
        known is not None
        and client_version >= EPOCH_BUMP_VERSION_FIRST
        and known.producer_epoch >= EPOCH_LAST
    )


def check_producer(known: Snapshot, producer: Producer) -> None:
    """Check that a request comes from the current producer.

    Raises: Refused (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED).
    """
    if producer.producer_id != known.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if producer.producer_epoch != known.producer_epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)
