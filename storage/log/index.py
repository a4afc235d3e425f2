"""The sparse indexes of a segment: offset -> position and timestamp -> offset.

Entries have a fixed size and rise, so that a look-up is a binary search. New entries stay in memory
(`_pending`) until they fill `PENDING_BYTES_MAX`, the log is flushed, or the segment rolls or
closes. They may lag behind the data, since recovery recreates the entries above the recovery point.
The part on disk is searched with `pread`, so that an idle segment holds nothing in memory.

An offset index entry is the LAST offset of an append and the position of its first byte; only
Kafka's followers append several batches at once. A time index entry is the greatest timestamp so
far and the last offset of the batch that has it.
"""

import contextlib
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from ..errors import DiskFull
from ..files import FileSystem
from .log_file import Bytes, LogFile

PENDING_BYTES_MAX: Final = 8192
_BLOCK_BYTES: Final = 6144  # a whole number of entries of both kinds
OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
_UnpackFrom = Callable[[bytes | bytearray, int], tuple[int, ...]]


class OffsetEntry(NamedTuple):
    """The last offset of an append, and the position where it begins."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The greatest timestamp so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class _EntryFile:
    """Fixed-size entries: a prefix on disk, the rest pending in memory."""

    __slots__ = ("_block", "_block_index", "_file", "_pending", "base_offset")
    ENTRY: struct.Struct = OFFSET_ENTRY

    def __init__(self, files: FileSystem, path: str, base_offset: int, size_bytes: int) -> None:
        self._file: LogFile = files.open_log(path, size_bytes)
        self._pending: bytearray | None = None
        self._block: bytes | None = None
        """Cache of the entries read last, from number `_block_index` on: readers move forward."""
        self._block_index = 0
        self.base_offset = base_offset

    @property
    def file(self) -> LogFile:
        """The file, for a flush; call `write_pending` first."""
        return self._file

    @property
    def size_bytes(self) -> int:
        """Bytes on disk and pending."""
        pending = self._pending
        return self._file.size_bytes + (len(pending) if pending else 0)

    @property
    def count(self) -> int:
        """Number of entries."""
        return self.size_bytes // self.ENTRY.size

    def _add(self, first: int, second: int) -> None:
        pending = self._pending
        if pending is None:
            pending = self._pending = bytearray()
        pending += self.ENTRY.pack(first, second)
        if len(pending) >= PENDING_BYTES_MAX:
            with contextlib.suppress(DiskFull):  # the data is in the log: entries can wait
                self.write_pending()

    def write_pending(self) -> None:
        """Write all pending entries to the file, unsynced.  Raises: LogDirFailed."""
        if self._pending:
            self._file.append(self._pending)
            self._pending = None

    def replace(self, entries: Bytes) -> None:
        """Make the file hold exactly these entries.  Raises: LogDirFailed."""
        self._pending = self._block = None
        self._file.truncate(0)
        if entries:
            self._file.append(entries)

    def read_ahead(self) -> bytes:
        """Read all entries on disk, and cache them for the next look-ups.  Raises: LogDirFailed."""
        data = self._file.pread(self._file.size_bytes, 0)
        whole = len(data) // self.ENTRY.size * self.ENTRY.size
        self._block, self._block_index = data[:whole] or None, 0
        return data

    def forget(self) -> None:
        """Drop the cached entries."""
        self._block = None

    def read_all(self) -> bytes:
        """All entries as bytes.  Raises: LogDirFailed."""
        return self._file.pread(self._file.size_bytes, 0) + bytes(self._pending or b"")

    def _keep(self, count: int) -> None:
        """Drop all but the first `count` entries."""
        self._block = None
        on_disk = self._file.size_bytes // self.ENTRY.size
        if count <= on_disk:
            self._pending = None
            if (kept_bytes := count * self.ENTRY.size) < self._file.size_bytes:
                self._file.truncate(kept_bytes)
        elif self._pending:
            del self._pending[(count - on_disk) * self.ENTRY.size :]

    def _entry(self, index: int) -> tuple[int, int]:
        """The raw numbers of one entry."""
        size = self.ENTRY.size
        on_disk = self._file.size_bytes // size
        if index >= on_disk and self._pending:
            first, second = self.ENTRY.unpack_from(self._pending, (index - on_disk) * size)
        elif self._block is not None and 0 <= (at := (index - self._block_index) * size) < len(
            self._block
        ):
            first, second = self.ENTRY.unpack_from(self._block, at)
        else:
            first, second = self.ENTRY.unpack(self._file.pread(size, index * size))
        return first, second

    def _floor(self, target: int, field: int) -> int:
        """Index of the last entry whose field is <= target, or -1."""
        size = self.ENTRY.size
        unpack_from = self.ENTRY.unpack_from
        on_disk = self._file.size_bytes // size
        pending = self._pending
        if pending and (on_disk == 0 or unpack_from(pending, 0)[field] <= target):
            return on_disk + _floor_in(unpack_from, size, pending, target, field)
        block = self._block
        if (
            block is not None
            and unpack_from(block, 0)[field]
            <= target
            < unpack_from(block, len(block) - size)[field]
        ):
            return self._block_index + _floor_in(unpack_from, size, block, target, field)
        low, high = 0, on_disk  # the answer is in [low - 1, high)
        while (high - low) * size > _BLOCK_BYTES:
            middle = (low + high) // 2
            if self._entry(middle)[field] <= target:
                low = middle + 1
            else:
                high = middle
        if high == low:
            return low - 1
        self._block_index = low
        self._block = self._file.pread((high - low) * size, low * size)
        return low + _floor_in(unpack_from, size, self._block, target, field)

    def close(self) -> None:
        """Write the pending entries and close the file.  Raises: LogDirFailed."""
        self.write_pending()
        self._file.close()


def _floor_in(
    unpack_from: _UnpackFrom, size: int, entries: bytes | bytearray, target: int, field: int
) -> int:
    low, high = 0, len(entries) // size
    while low < high:
        middle = (low + high) // 2
        if unpack_from(entries, middle * size)[field] <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


class OffsetIndex(_EntryFile):
    """Offset -> position of the append that ends there, or of the last indexed one before."""

    __slots__ = ()

    def append(self, offset_last: int, position: int) -> None:
        """Add the entry of an append that ends with `offset_last` and begins at `position`."""
        self._add(offset_last - self.base_offset, position)

    def _at(self, index: int) -> OffsetEntry | None:
        if index < 0:
            return None
        relative_offset, position = self._entry(index)
        return OffsetEntry(self.base_offset + relative_offset, position)

    def floor_offset(self, offset: int) -> OffsetEntry | None:
        """The last entry with an offset <= `offset`."""
        return self._at(self._floor(offset - self.base_offset, 0)) if self.size_bytes else None

    def base_offsets(self, entry: OffsetEntry) -> tuple[int, int]:
        """The range (inclusive) for the base offset of the batch at an entry's position."""
        before = self._at(self._floor(entry.offset - 1 - self.base_offset, 0))
        return (self.base_offset if before is None else before.offset + 1), entry.offset

    def floor_position(self, position: int) -> OffsetEntry | None:
        """The last entry with a position <= `position`."""
        return self._at(self._floor(position, 1)) if self.size_bytes else None

    def last(self) -> OffsetEntry | None:
        """The last entry."""
        return self._at(self.count - 1)

    def truncate(self, position_end: int) -> None:
        """Drop the entries of appends that begin at or after `position_end`."""
        self._keep(self._floor(position_end - 1, 1) + 1)


class TimeIndex(_EntryFile):
    """Timestamp -> last offset of the first batch that has it."""

    __slots__ = ()
    ENTRY = TIME_ENTRY

    def append(self, timestamp: int, offset: int) -> bool:
        """Add an entry if the timestamp is greater than the last one; return whether it is."""
        last = self.last()
        if timestamp <= (-1 if last is None else last.timestamp):
            return False
        self._add(timestamp, offset - self.base_offset)
        return True

    def _at(self, index: int) -> TimeEntry | None:
        if index < 0:
            return None
        timestamp, relative_offset = self._entry(index)
        return TimeEntry(timestamp, self.base_offset + relative_offset)

    def floor_timestamp(self, timestamp: int) -> TimeEntry | None:
        """The last entry with a timestamp <= `timestamp`."""
        return self._at(self._floor(timestamp, 0)) if self.size_bytes else None

    def last(self) -> TimeEntry | None:
        """The last entry."""
        return self._at(self.count - 1)

    def truncate(self, offset_end: int) -> None:
        """Drop the entries with an offset >= `offset_end`."""
        self._keep(self._floor(offset_end - 1 - self.base_offset, 1) + 1)
