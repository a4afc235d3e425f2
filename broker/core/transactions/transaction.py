"""One transactional id: what the log says of it, and how each event changes that.

`Snapshot` is a value: what a record holds. Each function here returns the snapshot after an event,
and refuses what the event's request does not allow. The coordinator appends it, and it takes effect
once the append is committed. Until then it is the transaction's pending transition.

A producer is known by its id and epoch. The epoch rises with each InitProducerId, which fences the
older producers of the same transactional id. Before it overflows the id changes. For a client that
speaks version 2 of transactions (KIP-890) the epoch rises with each end of a transaction as well.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.transaction_records import (
    PartitionsSchema,
    TransactionLogValue,
    TransactionRecord,
)

from ..effects import Producer
from ..partition_state import TopicPartition, by_topic
from .states import Event, TransactionState, next_state

NONE: Final = -1
EPOCH_LAST: Final = (1 << 15) - 2
"""The last epoch that a producer gets; the one after it is left for fencing that producer."""


class Snapshot(NamedTuple):
    """The state of a transactional id.  Times are in ms since the Unix epoch."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NONE
    """Of the last transaction; in the state Empty it is not in the records."""
    update_ms: int = NONE
    last_producer_id: int = NONE
    """The producer id before the last event; another one, if its epochs were exhausted.  Records of
    version 0 do not have it, nor what follows."""
    last_producer_epoch: int = NONE
    """The epoch with which the producer asked for this one, which it may do again (KIP-360); not in
    any records, so after a load such a retry is fenced, as in Kafka."""
    next_producer_id: int = NONE
    """In a Prepare state: the producer id after it, if the epochs of this one are exhausted."""
    client_version: int = 0
    """The version of transactions that the client of the last event spoke."""

    @property
    def is_ongoing(self) -> bool:
        """Whether a transaction is open, and its end not decided."""
        return self.state is TransactionState.ONGOING

    def record(self, transactional_id: str, version: int = 0) -> TransactionRecord:
        """The record to append; `version`: of its value."""
        if self.state is TransactionState.DEAD:
            return TransactionRecord(transactional_id, None)
        partitions = None
        if self.state is not TransactionState.EMPTY:
            partitions = [
                PartitionsSchema(topic=topic, partition_ids=ids)
                for topic, ids in by_topic(self.partitions).items()
            ]
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=self.update_ms,
            transaction_start_timestamp_ms=NONE if partitions is None else self.start_ms,
            previous_producer_id=self.last_producer_id,
            next_producer_id=self.next_producer_id,
            client_transaction_version=self.client_version,
        )
        return TransactionRecord(transactional_id, value, version)


def snapshot_of(value: TransactionLogValue) -> Snapshot:
    """What a record says.  Raises: ValueError (no such state)."""
    return Snapshot(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        last_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def needs_producer_id(known: Snapshot | None, claimed: Producer | None) -> bool:
    """Whether an InitProducerId needs a new producer id: the first one, or after the last epoch."""
    if known is None:
        return True
    is_exhausted = known.producer_epoch >= EPOCH_LAST
    return is_exhausted and (claimed is None or claimed.producer_epoch == known.producer_epoch)


def initialized(
    known: Snapshot, claimed: Producer | None, new_producer_id: int, timeout_ms: int, wall_ms: int
) -> Snapshot:
    """After InitProducerId by a new producer, or by one that `claimed` to be the current one.

    `new_producer_id` is only used if `needs_producer_id`.  A retry by a producer that did not hear
    the answer changes nothing but the times.  Raises: Refused (PRODUCER_FENCED).
    """
    check_claim(known, claimed)
    epoch = known.producer_epoch
    common = known._replace(
        state=next_state(known.state, Event.PRODUCER_INITIALIZED),
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        update_ms=wall_ms,
        last_producer_id=known.producer_id,
        last_producer_epoch=NONE,
    )
    if needs_producer_id(known, claimed):
        last_epoch = NONE if claimed is None else epoch
        return common._replace(
            producer_id=new_producer_id, producer_epoch=0, last_producer_epoch=last_epoch
        )
    if claimed is None:
        return common._replace(producer_epoch=epoch + 1)
    if epoch in (NONE, claimed.producer_epoch):
        return common._replace(producer_epoch=epoch + 1, last_producer_epoch=epoch)
    if claimed.producer_epoch == known.last_producer_epoch:
        return common._replace(last_producer_epoch=known.last_producer_epoch)
    raise Refused(ErrorCode.PRODUCER_FENCED)


def check_claim(known: Snapshot, claimed: Producer | None) -> None:
    """Check that a client was the current producer, or the one before.

    Raises: Refused (PRODUCER_FENCED).
    """
    if claimed is None or known.producer_epoch == NONE:
        return
    is_last = claimed.producer_id == known.last_producer_id
    if claimed.producer_id != known.producer_id and not (
        is_last and claimed.producer_epoch >= EPOCH_LAST
    ):
        raise Refused(ErrorCode.PRODUCER_FENCED)


def with_partitions(
    known: Snapshot, added: Iterable[TopicPartition], wall_ms: int, *, client_version: int = 0
) -> Snapshot:
    """After AddPartitionsToTxn; the first one begins the transaction."""
    return known._replace(
        last_producer_id=known.producer_id,
        client_version=client_version,
        state=next_state(known.state, Event.PARTITIONS_ADDED),
        partitions=known.partitions.union(added),
        start_ms=known.start_ms if known.is_ongoing else wall_ms,
        update_ms=wall_ms,
    )


def prepared(known: Snapshot, *, commits: bool, wall_ms: int) -> Snapshot:
    """After EndTxn of a client of version 1: the end is decided."""
    event = Event.COMMIT_DECIDED if commits else Event.ABORT_DECIDED
    return known._replace(
        state=next_state(known.state, event),
        update_ms=wall_ms,
        last_producer_id=known.producer_id,
        client_version=0,
    )


def prepared_with_epoch(
    known: Snapshot, *, commits: bool, wall_ms: int, next_producer_id: int = NONE
) -> Snapshot:
    """After EndTxn of a client of version 2: the end is decided, and the epoch rises.

    `next_producer_id`: takes effect with the markers, if the epochs are exhausted.
    """
    preparing = prepared(known, commits=commits, wall_ms=wall_ms)
    return preparing._replace(
        producer_epoch=_raised(known.producer_epoch),
        last_producer_epoch=known.producer_epoch,
        next_producer_id=next_producer_id,
        client_version=2,
        start_ms=known.start_ms if known.is_ongoing else wall_ms,
    )


def fenced(known: Snapshot, wall_ms: int) -> Snapshot:
    """After the coordinator has decided to abort: the producer's epoch is no longer valid."""
    aborting = prepared(known, commits=False, wall_ms=wall_ms)
    epoch = _raised(known.producer_epoch)
    return aborting._replace(producer_epoch=epoch, last_producer_epoch=NONE)


def _raised(epoch: int) -> int:
    # Nobody is given the epoch after the last one, but a client may claim to have it.
    return min(epoch, EPOCH_LAST) + 1


def identity_after(prepared: Snapshot) -> Producer:
    """With which producer id and epoch the producer goes on once the markers are written."""
    if prepared.next_producer_id != NONE:
        return Producer(prepared.next_producer_id, 0)
    return Producer(prepared.producer_id, prepared.producer_epoch)


def completed(known: Snapshot, wall_ms: int) -> Snapshot:
    """After all markers have been written."""
    producer_id, epoch = identity_after(known)
    return known._replace(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_id=known.producer_id,
        next_producer_id=NONE,
        state=next_state(known.state, Event.MARKERS_WRITTEN),
        partitions=frozenset(),
        update_ms=wall_ms,
    )


def expired(known: Snapshot) -> Snapshot:
    """After the id has not been used for too long."""
    state = next_state(known.state, Event.EXPIRED)
    return known._replace(state=state, partitions=frozenset())
