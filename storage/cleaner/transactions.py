"""Tracks transactions during a cleaning: which were aborted, which markers are still needed.

Source: CleanedTransactionMetadata of Kafka 3.9.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

from odradek.protocol.records import BatchHeader, MarkerType
from odradek.protocol.records.record import MARKER_KEY

from ..files import FileSystem
from ..log.segment import TXN_INDEX_SUFFIX
from ..log.txn_index import TXN_ENTRY, AbortedTransaction, TransactionIndex
from .scan import RecordScan


class AbortedTransactions:
    """All transaction indexes of a log, since the marker may be in an uncleanable segment."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        """Raises: LogDirFailed."""
        self._indexes: list[tuple[int, TransactionIndex]] = []
        for info in files.list_directory(directory):
            base, _, suffix = info.name.partition(".")
            if f".{suffix}" == TXN_INDEX_SUFFIX and base.isdecimal():
                # The active segment's index may be growing: read only whole entries.
                size_bytes = info.size_bytes - info.size_bytes % TXN_ENTRY.size
                index = TransactionIndex(files, f"{directory}/{info.name}", size_bytes)
                self._indexes.append((int(base), index))
        self._indexes.sort(key=lambda item: item[0])

    def between(self, offset: int, offset_end: int) -> list[AbortedTransaction]:
        """The transactions that overlap [offset, offset_end); `offset` is in the log.

        Raises: CorruptLog, LogDirFailed.
        """
        floor = max((base for base, _ in self._indexes if base <= offset), default=offset)
        found: list[AbortedTransaction] = []
        for base, index in self._indexes:
            if base >= floor and index.collect(offset, offset_end, found):
                break
        return found

    def close(self) -> None:
        """Close the files."""
        for _, index in self._indexes:
            index.file.close()


@dataclass(slots=True)
class _Ongoing:
    """An aborted transaction between its first offset and its marker."""

    transaction: AbortedTransaction
    has_batches: bool = False


class TransactionState:
    """The state of the transactions during a walk over the batches."""

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, AbortedTransaction]] = []  # a heap, by first offset
        self._ongoing_aborted: dict[int, _Ongoing] = {}
        self._ongoing_committed: set[int] = set()
        self._aborted: list[AbortedTransaction] = []

    def add_aborted(self, transactions: list[AbortedTransaction]) -> None:
        """Add aborted transactions before the walk reaches their first batch.  Idempotent."""
        for transaction in transactions:
            heappush(self._waiting, (transaction.first_offset, transaction))

    def _begin_aborted(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heappop(self._waiting)[1]
            self._ongoing_aborted.setdefault(transaction.producer_id, _Ongoing(transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process the next data batch; return whether its transaction was aborted."""
        self._begin_aborted(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._ongoing_aborted.get(header.producer_id)
        if ongoing is None:
            self._ongoing_committed.add(header.producer_id)
            return False
        ongoing.has_batches = True
        return True

    def is_needless(self, header: BatchHeader, marker: MarkerType | None) -> bool:
        """Process the next control batch; return whether its transaction has no batches left.

        `marker` is None for a control batch of another type, which is always needed.
        """
        self._begin_aborted(header.last_offset)
        if header.record_count == 0:
            return True
        if marker is MarkerType.ABORT:
            ongoing = self._ongoing_aborted.pop(header.producer_id, None)
            if ongoing is None or not ongoing.has_batches:
                return True
            self._aborted.append(ongoing.transaction)
            return False
        if marker is MarkerType.COMMIT:
            needed = header.producer_id in self._ongoing_committed
            self._ongoing_committed.discard(header.producer_id)
            return not needed
        return False

    def take_kept_aborts(self) -> list[AbortedTransaction]:
        """Index entries of the needed abort markers since the last call."""
        kept, self._aborted = self._aborted, []
        return kept


def marker_of(scan: RecordScan) -> MarkerType | None:
    """The type of marker in a control batch; None: no transaction marker."""
    key = scan.keys[0] if scan.keys else None
    if key is None or len(key) < MARKER_KEY.size:
        return None
    _, kind = MARKER_KEY.unpack_from(key)
    return MarkerType(kind) if kind in (MarkerType.ABORT, MarkerType.COMMIT) else None
