"""A partition's state of its idempotent producers (KIP-98, KIP-360).

Each producer id has its epoch and its last ten batches as (last sequence, last offset, offset
delta, timestamp). Kafka keeps five, the most that a producer has in flight. But that is a limit per
broker: while five wait for a late response of the old leader, the new leader takes five more, and
must still recognize the first five when they are retried. A batch is

- a duplicate if one of the ten has its epoch and its first and last sequence: the response of the
  first append is repeated;
- in order if its first sequence follows the last one (2^31-1 is followed by 0);
- of a new epoch if the epoch rose, and must then begin with sequence 0;
- accepted with any sequence if the producer is unknown, because its state may have expired.

Anything else is OUT_OF_ORDER_SEQUENCE_NUMBER, or INVALID_PRODUCER_EPOCH if the epoch fell.  While a
producer has an open transaction, its other batches are INVALID_TXN_STATE.  Followers check nothing:
they take what their leader took.  Source: ProducerStateEntry, ProducerAppendInfo and
ProducerStateManager of Kafka 3.9.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.primitives import INT16_MAX, INT32_MAX
from odradek.protocol.records import BatchHeader, Marker, MarkerType, iter_records, read_marker

from ..errors import ProducerError
from .log_file import Bytes
from .transactions import Transactions

BATCHES_KEPT_MAX: Final = 10
NO_PRODUCER_EPOCH: Final = -1
EPOCH_BUMP_VERSION_FIRST: Final = 2
"""Of transactions: from it on each end raises the epoch (KIP-890)."""
_MARKER_BYTES_MAX: Final = 4096


class KeptBatch(NamedTuple):
    """One appended batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        """Offset of its first record."""
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        """Sequence of its first record."""
        return sequence_before(self.last_sequence, self.offset_delta)


class Duplicate(NamedTuple):
    """The batch is already in the log: respond with these."""

    base_offset: int
    last_offset: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log; offsets are inclusive, the last is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        *,
        batches: Iterable[KeptBatch] = (),
        last_timestamp: int = -1,
        coordinator_epoch: int = -1,
        transaction_first_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches = tuple(batches)
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.transaction_first_offset = transaction_first_offset

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, or -1 if no batch is kept."""
        return self.batches[-1].last_sequence if self.batches else -1

    def take_epoch(self, producer_epoch: int) -> None:
        """Set the epoch; a new one discards the batches of the old one."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = ()


def sequence_before(sequence: int, count: int) -> int:
    """The sequence `count` records earlier; 2^31-1 precedes 0."""
    return (sequence - count) & INT32_MAX


class ProducerState:
    """The idempotent producers of one partition.

    State is only dropped by `expire`, by a new epoch, and once more than ten batches are kept:
    retention and DeleteRecords do not touch it (KIP-360).
    """

    __slots__ = ("_entries", "transactions")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        self.transactions = Transactions(
            (entry.producer_id, entry.transaction_first_offset)
            for entry in self._entries.values()
            if entry.transaction_first_offset >= 0
        )

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ProducerEntry]:
        """All producers, in the order in which they were first seen."""
        return list(self._entries.values())

    def entry(self, producer_id: int) -> ProducerEntry | None:
        """The state of one producer id, if it is known."""
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Check a client's batch with a producer id, before the append.  None: append it.

        Raises: ProducerError(INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_TXN_STATE).
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch != entry.producer_epoch:
            self.check_epoch(header.producer_id, header.producer_epoch)
            _check_begins_anew(header, entry)
            _check_transactional(header, entry)
            return None
        base_sequence = header.base_sequence
        last_sequence = header.last_sequence
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.base_sequence == base_sequence:
                return Duplicate(batch.base_offset, batch.last_offset, batch.timestamp)
        expected = (entry.last_sequence + 1) & INT32_MAX
        if base_sequence != expected:
            raise ProducerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} epoch {header.producer_epoch}: sequence "
                f"{base_sequence} came where {expected} was expected",
            )
        _check_transactional(header, entry)
        return None

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer of this epoch has an open transaction."""
        entry = self._entries.get(producer_id)
        return (
            entry is not None
            and entry.transaction_first_offset >= 0
            and entry.producer_epoch == producer_epoch
        )

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Check that a producer's epoch is not older than the known one.

        Raises: ProducerError(INVALID_PRODUCER_EPOCH).
        """
        entry = self._entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise ProducerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id}: epoch {producer_epoch} is older than "
                f"{entry.producer_epoch}",
            )

    def check_marker(
        self, header: BatchHeader, marker: Marker, transaction_version: int = 0
    ) -> None:
        """Check a coordinator's marker, before the append.

        It may name a producer without an open transaction, which then wrote nothing here. With
        version 2 of transactions it has a later epoch than the records that it ends (KIP-1228).
        Raises: ProducerError(INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED).
        """
        self.check_epoch(header.producer_id, header.producer_epoch)
        entry = self._entries.get(header.producer_id)
        if (
            transaction_version >= EPOCH_BUMP_VERSION_FIRST
            and self.is_in_transaction(header.producer_id, header.producer_epoch)
            and header.producer_epoch < INT16_MAX  # which is no producer's
        ):
            raise ProducerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: a marker of epoch {header.producer_epoch} came "
                "while a transaction of that epoch is open",
            )
        if entry is not None and marker.coordinator_epoch < entry.coordinator_epoch:
            raise ProducerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {header.producer_id}: coordinator epoch {marker.coordinator_epoch} is "
                f"older than {entry.coordinator_epoch}",
            )

    def update(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Record a data batch that was appended at `base_offset`."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.take_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        batch = KeptBatch(header.last_sequence, base_offset + delta, delta, timestamp)
        entry.batches = (*entry.batches[1 - BATCHES_KEPT_MAX :], batch)
        entry.last_timestamp = timestamp
        if header.is_transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset
            self.transactions.begin(header.producer_id, base_offset)

    def end_transaction(
        self, header: BatchHeader, marker: Marker, offset: int
    ) -> EndedTransaction | None:
        """Record a commit or abort marker at `offset`; return the transaction it ended, if any."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        entry.take_epoch(header.producer_epoch)
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, -1
        self.transactions.end(header.producer_id, offset)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        if first_offset < 0:
            return None
        is_aborted = marker.type == MarkerType.ABORT
        return EndedTransaction(header.producer_id, first_offset, offset, is_aborted)

    def aborted_by(
        self, header: BatchHeader, batch: Bytes, base_offset: int
    ) -> EndedTransaction | None:
        """The transaction that a batch appended at `base_offset` would abort."""
        entry = self._entries.get(header.producer_id) if header.is_control else None
        if entry is None or entry.transaction_first_offset < 0:
            return None
        marker = marker_of(batch)
        if marker is None or marker.type != MarkerType.ABORT:
            return None
        first_offset = entry.transaction_first_offset
        return EndedTransaction(header.producer_id, first_offset, base_offset, is_aborted=True)

    def note(
        self, header: BatchHeader, batch: Bytes, base_offset: int, timestamp: int
    ) -> EndedTransaction | None:
        """Record a batch with a producer id that was appended or found in the log.

        `batch` is only read if it is a control batch.  Returns the transaction that it ends.
        """
        if not header.is_control:
            self.update(header, base_offset, timestamp)
            return None
        marker = marker_of(batch)
        return None if marker is None else self.end_transaction(header, marker, base_offset)

    def expire(self, wall_ms: int, *, producer_id_expiration_ms: int) -> int:
        """Drop idle producers without an open transaction; return how many.

        Idle: the last batch is at least `producer_id_expiration_ms` old.
        """
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset < 0
            and wall_ms - entry.last_timestamp >= producer_id_expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)


def _check_begins_anew(header: BatchHeader, entry: ProducerEntry) -> None:
    if header.base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
        raise ProducerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}: the new epoch {header.producer_epoch} begins with "
            f"sequence {header.base_sequence} instead of 0",
        )


def _check_transactional(header: BatchHeader, entry: ProducerEntry) -> None:
    if entry.transaction_first_offset >= 0 and not header.is_transactional:
        raise ProducerError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id}: a batch without a transaction came while the one that "
            f"began at offset {entry.transaction_first_offset} is open",
        )


def marker_of(batch: Bytes) -> Marker | None:
    """The end-transaction marker in a control batch; None for any other control record."""
    try:
        for record in iter_records(batch, size_bytes_max=_MARKER_BYTES_MAX):
            return read_marker(record)
    except MalformedMessage:
        pass
    return None
