"""The transaction index of a segment: the aborted transactions, in order of their markers.

An entry is 34 bytes: version (int16, 0), producer id, first offset of the transaction, offset of
its abort marker, last stable offset when the marker was written (int64 each).  The file is created
with its first entry.  Source: AbortedTxn and TransactionIndex of Kafka 3.9.
"""

import struct
from typing import Final, NamedTuple, Self

from ..errors import CorruptLog
from ..files import FileSystem
from .log_file import LogFile
from .producer_state import EndedTransaction, ProducerState

TXN_ENTRY: Final = struct.Struct(">hqqqq")
VERSION: Final = 0
_SIZE_BYTES_MAX: Final = 512 << 20  # a segment can't hold more markers


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


def encode_aborted(transaction: AbortedTransaction) -> bytes:
    """The bytes of one entry."""
    return TXN_ENTRY.pack(VERSION, *transaction)


def decode_aborted(data: bytes | memoryview) -> list[AbortedTransaction]:
    """The entries of a whole file.  Raises: CorruptLog (version, length, order)."""
    if len(data) % TXN_ENTRY.size:
        raise CorruptLog("the transaction index ends inside an entry")
    entries: list[AbortedTransaction] = []
    for version, *fields in TXN_ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != VERSION:
            raise CorruptLog(f"the transaction index has an entry of version {version}")
        if entry.last_offset < entry.first_offset or (
            entries and entry.last_offset <= entries[-1].last_offset
        ):
            raise CorruptLog(f"the transaction index is out of order at {entry}")
        entries.append(entry)
    return entries


class TransactionIndex:
    """The entries of one segment; read on demand, since most segments have none."""

    __slots__ = ("_exists", "_files", "file")

    def __init__(self, files: FileSystem, path: str, size_bytes: int | None) -> None:
        """`size_bytes`: size of the file, None if it does not exist."""
        self._files = files
        self._exists = size_bytes is not None
        self.file: LogFile = files.open_log(path, size_bytes or 0)

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return self.file.size_bytes == 0

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an entry, unsynced.  Raises: DiskFull (the index is then unchanged), LogDirFailed."""
        self._create()
        self.file.append(encode_aborted(transaction))

    def _create(self) -> None:
        if not self._exists:
            self._files.create(self.file.path)
            self._exists = True

    def entries(self) -> list[AbortedTransaction]:
        """All entries.  Raises: CorruptLog, LogDirFailed."""
        if self.is_empty:
            return []
        if self.file.size_bytes > _SIZE_BYTES_MAX:
            raise CorruptLog(f"{self.file.size_bytes} bytes are too many for it")
        return decode_aborted(self.file.pread(self.file.size_bytes, 0))

    def collect(self, offset: int, offset_end: int, found: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap [offset, offset_end) to `found`.

        Returns True if later segments can have no more of them.  Raises: CorruptLog, LogDirFailed.
        """
        for entry in self.entries():
            if entry.last_offset >= offset and entry.first_offset < offset_end:
                found.append(entry)
            if entry.last_stable_offset >= offset_end:
                return True
        return False

    def truncate(self, offset_end: int) -> None:
        """Drop the entries whose marker is at or after `offset_end`; a corrupt file is emptied.

        Raises: LogDirFailed.
        """
        if self.is_empty:
            return
        try:
            kept = sum(entry.last_offset < offset_end for entry in self.entries())
        except CorruptLog:
            kept = 0
        self.file.truncate(kept * TXN_ENTRY.size)
