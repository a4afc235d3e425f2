"""Checks in one walk whether a segment's indexes match its batches.

Entries are for whole appends: an offset index entry has the last offset of an append and the
position of its first batch, and an append of a Kafka follower may have several batches. The density
of the entries depends on settings and on what appended, so it proves nothing.
"""

import struct
from typing import Final

from odradek.protocol.records import BatchHeader

from ..log.index import OFFSET_ENTRY, TIME_ENTRY

_END: Final = 1 << 63
"""Greater than every offset and position."""


def padding_bytes(entries: bytes, entry: struct.Struct) -> int:
    """The number of zero bytes after the last entry: Kafka preallocates an index and cuts it on
    close.  Zeros that complete an entry do not count."""
    used = len(entries.rstrip(b"\0"))
    used += -used % entry.size
    return len(entries) - used if used < len(entries) else 0


class _IndexCheck:
    """Goes through the entries of one index; `problem` is the first fault."""

    __slots__ = ("_entries", "_number", "base_offset", "first", "problem", "second")
    ENTRY: struct.Struct

    def __init__(self, entries: bytes, base_offset: int) -> None:
        """`entries` without padding."""
        whole_bytes = len(entries) // self.ENTRY.size * self.ENTRY.size
        self._entries = self.ENTRY.iter_unpack(memoryview(entries)[:whole_bytes])
        self._number = -1
        self.base_offset = base_offset
        self.problem: str | None = None
        if whole_bytes < len(entries):
            self.problem = f"its {len(entries)} bytes end inside an entry"
        self.first = self.second = _END
        self._take()

    def _take(self) -> None:
        """Move to the next entry."""
        self._number += 1
        self.first, self.second = next(self._entries, (_END, _END))

    def _fail(self, what: str) -> None:
        self.problem = f"entry {self._number} {what}"
        self.first = self.second = _END


class OffsetIndexCheck(_IndexCheck):
    """Checks an `.index`: call `note` for each good batch, then `finish`."""

    __slots__ = ("_awaited",)
    ENTRY = OFFSET_ENTRY

    def __init__(self, entries: bytes, base_offset: int) -> None:
        super().__init__(entries, base_offset)
        self._awaited = _END  # offset of the previous entry, until a batch ends there

    def note(self, position: int, header: BatchHeader) -> None:
        """Process the next good batch."""
        if position >= self.second:
            offset = self.base_offset + self.first
            if position > self.second:
                return self._fail(f"names position {self.second}, where no batch begins")
            if offset < header.base_offset or self._awaited != _END:
                return self._fail(f"names offset {offset}, which is not behind {position}")
            self._awaited = offset
            self._take()
        if header.last_offset >= self._awaited:
            if header.last_offset > self._awaited:
                self._number -= 1
                self._fail(f"names offset {self._awaited}, at which no batch ends")
            self._awaited = _END

    def finish(self) -> None:
        """End the check."""
        if self.second != _END:
            self._fail(f"names position {self.second}, past the last batch")
        elif self._awaited != _END and self.problem is None:
            self._number -= 1
            self._fail(f"names offset {self._awaited}, past the last batch")


class TimeIndexCheck(_IndexCheck):
    """Checks a `.timeindex`: call `note` for each good batch, then `finish`."""

    __slots__ = ("indexed_timestamp", "max_timestamp")
    ENTRY = TIME_ENTRY

    def __init__(self, entries: bytes, base_offset: int) -> None:
        super().__init__(entries, base_offset)
        self.max_timestamp = self.indexed_timestamp = -1

    def note(self, position: int, header: BatchHeader) -> None:
        """Process the next good batch."""
        offset = self.base_offset + self.second
        if offset <= header.last_offset:
            timestamp = self.first
            if timestamp <= self.indexed_timestamp:
                self._fail(f"names the time {timestamp}, not later than {self.indexed_timestamp}")
            elif not header.base_offset <= offset or timestamp != header.max_timestamp:
                self._fail(f"names the time {timestamp} for offset {offset}, which has another")
            elif timestamp < self.max_timestamp:
                self._fail(f"names the time {timestamp} after {self.max_timestamp} was reached")
            else:
                self.indexed_timestamp = timestamp
                self._take()
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)

    def finish(self, *, is_complete: bool) -> None:
        """End the check; in a complete index the last entry has the greatest timestamp."""
        if self.second != _END:
            self._fail(f"names offset {self.base_offset + self.second}, past the last batch")
        elif is_complete and self.problem is None and self.indexed_timestamp < self.max_timestamp:
            self.problem = f"the greatest timestamp {self.max_timestamp} is missing at its end"
