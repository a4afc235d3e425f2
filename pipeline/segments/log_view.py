"""A read-only view of one partition's directory as it is now.

A broker may be writing to it, so its files may be unfinished: Kafka fills the indexes of the active
segment with zeros.  Any index may be wrong: it is only a hint, and the batch that it points to is
checked.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import HEADER_SIZE_BYTES, BatchHeader, read_header
from odradek.storage.errors import LogDirFailed
from odradek.storage.files import FileSystem
from odradek.storage.log.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeEntry, TimeIndex
from odradek.storage.log.log_file import LogFile
from odradek.storage.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)

_STEM: Final = re.compile(r"[0-9]{20}")


class Place(NamedTuple):
    """A batch boundary."""

    offset: int
    position: int


class SegmentView:
    """One segment.  Missing indexes count as empty."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        base_offset: int,
        offset_end: int | None,
        sizes: dict[str, int],
    ) -> None:
        """`offset_end`: base offset of the next segment; None: this is the active one."""
        stem = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.offset_end = offset_end
        self.file: LogFile = files.open_log(stem + LOG_SUFFIX, _size(sizes, stem + LOG_SUFFIX))
        self.txn_index_path = stem + TXN_INDEX_SUFFIX
        self._files = files
        self._directory = directory
        self._stem = stem
        self._sizes = sizes
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None

    @property
    def offset_index(self) -> OffsetIndex:
        """Offsets to positions, without padding."""
        if self._offset_index is None:
            path = self._stem + INDEX_SUFFIX
            size_bytes = self._used_bytes(path, OFFSET_ENTRY.size)
            self._offset_index = OffsetIndex(self._files, path, self.base_offset, size_bytes)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """Timestamps to offsets, without padding."""
        if self._time_index is None:
            path = self._stem + TIME_INDEX_SUFFIX
            size_bytes = self._used_bytes(path, TIME_ENTRY.size)
            self._time_index = TimeIndex(self._files, path, self.base_offset, size_bytes)
        return self._time_index

    def floor(self, offset: int) -> Place:
        """A batch boundary at or before the batch with an offset; near it if there is an index."""
        index = self.offset_index
        entry = index.floor_offset(offset)
        if entry is None:
            return Place(self.base_offset, 0)
        return self._boundary(entry.position, index.base_offsets(entry)) or Place(
            self.base_offset, 0
        )

    def position_of(self, offset: int) -> int | None:
        """The likely position of the batch that begins with an offset; None if there is none."""
        position = self.floor(offset).position
        for header in self._headers(position):
            if header.base_offset >= offset:
                return position if header.base_offset == offset else None
            position += header.size_bytes
        return None

    def boundary_before(self, position: int) -> Place | None:
        """The last indexed boundary at or before a position."""
        index = self.offset_index
        entry = index.floor_position(position)
        return None if entry is None else self._boundary(entry.position, index.base_offsets(entry))

    def last_time(self) -> TimeEntry | None:
        """The last entry of the time index, if valid: no record before its offset is later."""
        entry = self.time_index.last()
        return entry if entry is not None and self.is_true(entry) else None

    def time_before(self, timestamp_ms: int) -> TimeEntry | None:
        """The last entry of the time index before a time, if valid."""
        entry = self.time_index.floor_timestamp(timestamp_ms - 1)
        return entry if entry is not None and self.is_true(entry) else None

    def is_true(self, entry: TimeEntry) -> bool:
        """Whether the batch that an entry names has its timestamp."""
        if entry.offset < self.base_offset:
            return False
        for header in self._headers(self.floor(entry.offset).position):
            if header.last_offset >= entry.offset:
                return header.base_offset <= entry.offset and (
                    header.max_timestamp == entry.timestamp
                )
        return False

    def _headers(self, position: int) -> Iterator[BatchHeader]:
        """The batch headers from a position on, as long as the bytes look like headers."""
        while True:
            try:
                header = read_header(self.file.pread(HEADER_SIZE_BYTES, position))
            except MalformedMessage:
                return
            yield header
            position += header.size_bytes

    def _boundary(self, position: int, base_offsets: tuple[int, int]) -> Place | None:
        """The batch at a position, if it may be the one that an index entry refers to."""
        header = next(self._headers(position), None) if position < self.file.size_bytes else None
        if header is None or not base_offsets[0] <= header.base_offset <= base_offsets[1]:
            return None
        return Place(header.base_offset, position)

    def _used_bytes(self, path: str, entry_bytes: int) -> int:
        """Size of an index without the zeros at its end; only the active segment has many."""
        size_bytes = _size(self._sizes, path) // entry_bytes * entry_bytes
        if size_bytes == 0 or self.offset_end is not None:
            return size_bytes
        data = self._files.read_bytes(path) or b""
        used = len(data[:size_bytes].rstrip(b"\0"))
        return used + -used % entry_bytes

    def close(self) -> None:
        """Close the files."""
        self.file.close()
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()


class LogView:
    """The segments of one partition, by rising base offset; only a new view sees changes."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        """Raises: LogDirFailed."""
        self.files = files
        self.directory = directory
        infos = files.list_directory(directory)
        sizes = {f"{directory}/{info.name}": info.size_bytes for info in infos}
        stems = (info.name.removesuffix(LOG_SUFFIX) for info in infos if _is_log(info.name))
        bases = sorted(int(stem) for stem in stems)
        self.names = [info.name for info in infos]
        self.segments = [
            SegmentView(files, directory, base, end, sizes)
            for base, end in zip(bases, [*bases[1:], None], strict=True)
        ]
        self._bases = bases

    def from_offset(self, offset: int) -> list[SegmentView]:
        """The segment that holds an offset and those after it."""
        return self.segments[max(0, bisect_right(self._bases, offset) - 1) :]

    @property
    def first_offset(self) -> int | None:
        """Where the first segment begins."""
        return self._bases[0] if self._bases else None

    def close(self) -> None:
        """Close the files."""
        for segment in self.segments:
            segment.close()


def _is_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and bool(_STEM.fullmatch(name.removesuffix(LOG_SUFFIX)))


def _size(sizes: dict[str, int], path: str) -> int:
    return sizes.get(path, 0)


def is_gone(error: LogDirFailed) -> bool:
    """Whether a file or directory was removed."""
    return isinstance(error.__cause__, FileNotFoundError)
