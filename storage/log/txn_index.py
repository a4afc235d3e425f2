"""The transaction index of a segment: the aborted transactions, in order of their markers.

An entry is 34 bytes: version (int16, 0), producer id, first offset of the transaction, offset of
its abort marker, last stable offset when the marker was written (int64 each).  The file is created
with its first entry.  Source: AbortedTxn and TransactionIndex of Kafka 3.9.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from operator import le, lt
from typing import Final, NamedTuple, Self

from ..errors import CorruptLog
from ..files import FileSystem
from .log_file import LogFile
from .producer_state import EndedTransaction, ProducerState

TXN_ENTRY: Final = struct.Struct(">hqqqq")
VERSION: Final = 0
_INT64_BYTES: Final = 8
_SIZE_BYTES_MAX: Final = 512 << 20  # a segment can't hold more markers
_BLOCK: Final = 128
"""So many entries share one least first offset: a search passes over them together."""


class AbortedTransaction(NamedTuple):
    """One entry; offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def of(cls, ended: EndedTransaction, producers: ProducerState) -> Self:
        """The entry of a transaction whose abort marker is appended next, or was appended last."""
        first_open = producers.transactions.first_open_offset(except_of=ended.producer_id)
        stable = ended.last_offset + 1 if first_open is None else first_open
        return cls(ended.producer_id, ended.first_offset, ended.last_offset, stable)


class AbortedColumns:
    """Decoded entries in order, one array a field: 32 bytes an entry."""

    __slots__ = ("_first_offsets", "_last_offsets", "_least", "_producer_ids", "_stable_offsets")

    def __init__(
        self,
        producer_ids: "array[int]",
        first_offsets: "array[int]",
        last_offsets: "array[int]",
        stable_offsets: "array[int]",
    ) -> None:
        self._producer_ids = producer_ids
        self._first_offsets = first_offsets
        self._last_offsets = last_offsets
        self._stable_offsets = stable_offsets
        starts = range(0, len(self), _BLOCK)
        self._least = array("q", (min(self._first_offsets[i : i + _BLOCK]) for i in starts))

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        columns = self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets
        return map(AbortedTransaction, *columns)

    def _entry(self, index: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[index],
            self._first_offsets[index],
            self._last_offsets[index],
            self._stable_offsets[index],
        )

    def append(self, transaction: AbortedTransaction) -> None:
        """Add the next entry."""
        if len(self) % _BLOCK == 0:
            self._least.append(transaction.first_offset)
        else:
            self._least[-1] = min(self._least[-1], transaction.first_offset)
        self._producer_ids.append(transaction.producer_id)
        self._first_offsets.append(transaction.first_offset)
        self._last_offsets.append(transaction.last_offset)
        self._stable_offsets.append(transaction.last_stable_offset)

    def count_before(self, offset: int) -> int:
        """How many entries have their marker before `offset`."""
        return bisect_left(self._last_offsets, offset)

    def collect(self, offset: int, offset_end: int, found: list[AbortedTransaction]) -> bool:
        """As `TransactionIndex.collect`."""
        start = self.count_before(offset)
        last = bisect_left(self._stable_offsets, offset_end, start)  # these offsets rise, too
        end = min(last + 1, len(self))
        first_offsets = self._first_offsets
        for block in range(start // _BLOCK, -(-end // _BLOCK)):
            if self._least[block] < offset_end:
                begin = max(start, block * _BLOCK)
                indexes = range(begin, min(end, (block + 1) * _BLOCK))
                found += [self._entry(i) for i in indexes if first_offsets[i] < offset_end]
        return last < len(self)


def encode_aborted(transaction: AbortedTransaction) -> bytes:
    """The bytes of one entry."""
    return TXN_ENTRY.pack(VERSION, *transaction)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """The entries of a whole file.  Raises: CorruptLog (version, length, order)."""
    return list(_decode(data))


def _decode(data: bytes) -> AbortedColumns:
    if len(data) % TXN_ENTRY.size:
        raise CorruptLog("the transaction index ends inside an entry")
    versions = bytes(data[:: TXN_ENTRY.size] + data[1 :: TXN_ENTRY.size])
    if versions.count(VERSION) < len(versions):
        raise CorruptLog("the transaction index has an entry of an unknown version")
    producer_ids, first_offsets, last_offsets, stable_offsets = (
        _column(data, position) for position in range(2, TXN_ENTRY.size, _INT64_BYTES)
    )
    if not all(map(le, first_offsets, last_offsets)):
        raise CorruptLog("the transaction index has a transaction that ends before it begins")
    if not all(map(lt, last_offsets, last_offsets[1:])):
        raise CorruptLog("the transaction index is out of order")
    return AbortedColumns(producer_ids, first_offsets, last_offsets, stable_offsets)


def _column(data: bytes, position: int) -> "array[int]":
    """The int64 at `position` of each entry.

    It is copied byte by byte of the integer, for all entries at once: five times as fast as
    unpacking each of them.
    """
    column = bytearray(len(data) // TXN_ENTRY.size * _INT64_BYTES)
    for byte in range(_INT64_BYTES):
        column[byte::_INT64_BYTES] = data[position + byte :: TXN_ENTRY.size]
    integers = array("q", column)
    if sys.byteorder == "little":
        integers.byteswap()
    return integers


class TransactionIndex:
    """The entries of one segment; read on demand, since most segments have none."""

    __slots__ = ("_columns", "_exists", "_files", "file")

    def __init__(self, files: FileSystem, path: str, size_bytes: int | None) -> None:
        """`size_bytes`: size of the file, None if it does not exist."""
        self._files = files
        self._exists = size_bytes is not None
        self._columns: AbortedColumns | None = None
        self.file: LogFile = files.open_log(path, size_bytes or 0)

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return self.file.size_bytes == 0

    @property
    def is_decoded(self) -> bool:
        """Whether the entries are in memory: since they were read, or if all were appended here."""
        return self._columns is not None

    def forget(self) -> None:
        """Drop the decoded entries."""
        self._columns = None

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an entry, unsynced.  Raises: DiskFull (the index is then unchanged), LogDirFailed."""
        self._create()
        if self.is_empty:
            self._columns = _decode(b"")
        self.file.append(encode_aborted(transaction))
        if self._columns is not None:
            self._columns.append(transaction)

    def _create(self) -> None:
        if not self._exists:
            self._files.create(self.file.path)
            self._exists = True

    def entries(self) -> list[AbortedTransaction]:
        """All entries.  Raises: CorruptLog, LogDirFailed."""
        return list(self._decoded())

    def _decoded(self) -> AbortedColumns:
        """All entries, which are read once.  Raises: CorruptLog, LogDirFailed."""
        if self._columns is None:
            size_bytes = self.file.size_bytes
            if size_bytes > _SIZE_BYTES_MAX:
                raise CorruptLog(f"{size_bytes} bytes are too many for it")
            self._columns = _decode(self.file.pread(size_bytes, 0) if size_bytes else b"")
        return self._columns

    def collect(self, offset: int, offset_end: int, found: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap [offset, offset_end) to `found`.

        Returns True if later segments can have no more of them.  Raises: CorruptLog, LogDirFailed.
        """
        return not self.is_empty and self._decoded().collect(offset, offset_end, found)

    def truncate(self, offset_end: int) -> None:
        """Drop the entries whose marker is at or after `offset_end`; a corrupt file is emptied.

        Raises: LogDirFailed.
        """
        if self.is_empty:
            return
        try:
            kept = self._decoded().count_before(offset_end)
        except CorruptLog:
            kept = 0
        self.forget()
        self.file.truncate(kept * TXN_ENTRY.size)
