"""Look-ups by timestamp (ListOffsets).

The batch is found by the indexes and by headers, and then searched record by record. A batch may
contain millions of records, or much more data than it has bytes, so a caller that must not be held
up takes long searches by `LongSearch` and has a thread do them.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.records import BatchHeader, Codec, iter_records

from .index import TimeEntry
from .segment import Segment
from .segments import Segments
from .walk import walk_headers

AT_ONCE_RECORDS_MAX: Final = 10_000


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch that wrote it (-1: unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int


class Search:
    """What is to be searched in one batch; it has a copy, so that a thread may call `find`."""

    def __init__(
        self,
        batch: memoryview,
        header: BatchHeader,
        timestamp: int,
        *,
        offset_first: int,
        record_bytes_max: int,
    ) -> None:
        self._batch = batch
        self._header = header
        self._timestamp = timestamp
        self._offset_first = offset_first
        self._record_bytes_max = record_bytes_max

    @property
    def is_long(self) -> bool:
        """Whether it would hold up everything else."""
        header = self._header
        return header.codec != Codec.NONE or header.record_count > AT_ONCE_RECORDS_MAX

    @property
    def offset_end(self) -> int:
        """Where to go on if nothing is found."""
        return self._header.last_offset + 1

    def find(self) -> TimestampOffset | None:
        """The first record that fits.  Raises: MalformedMessage."""
        header, size_bytes_max = self._header, self._record_bytes_max
        for record in iter_records(self._batch, header, size_bytes_max=size_bytes_max):
            if record.timestamp >= self._timestamp and record.offset >= self._offset_first:
                epoch = header.partition_leader_epoch
                return TimestampOffset(record.timestamp, record.offset, epoch)
        return None


class LongSearch(Exception):
    """The batch that is next takes long to `search`."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self.search = search


def offset_for_timestamp(
    segments: Segments,
    timestamp: int,
    *,
    log_start_offset: int,
    record_bytes_max: int,
    leave_long: bool = False,
) -> TimestampOffset | None:
    """The first record at or after `log_start_offset` with a timestamp >= `timestamp`.

    Raises: CorruptLog, MalformedMessage (a batch that does not decompress), LogDirFailed; with
    `leave_long` LongSearch.
    """
    for segment in segments:
        segment.load_max_timestamp()
        if segment.max_timestamp < timestamp:
            continue
        for position, header in _batches_from(segment, timestamp, log_start_offset):
            if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                continue
            search = Search(
                _batch(segment, position, header),
                header,
                timestamp,
                offset_first=log_start_offset,
                record_bytes_max=record_bytes_max,
            )
            if leave_long and search.is_long:
                raise LongSearch(search)
            found = search.find()
            if found is not None:
                return found
    return None


def max_timestamp_offset(
    segments: Segments, *, record_bytes_max: int, leave_long: bool = False
) -> TimestampOffset | None:
    """The first record with the log's greatest timestamp; None if no record has a timestamp.

    Raises: as `offset_for_timestamp`.
    """
    for segment in segments:
        segment.load_max_timestamp()
    newest = max(segments, key=lambda segment: segment.max_timestamp)
    if newest.max_timestamp < 0:
        return None
    found = newest.find(newest.max_timestamp_offset)
    if found is None:
        return None
    for position, header in walk_headers(newest.file, found[1], newest.size_bytes):
        search = Search(
            _batch(newest, position, header),
            header,
            header.max_timestamp,
            offset_first=0,
            record_bytes_max=record_bytes_max,
        )
        if leave_long and search.is_long:
            raise LongSearch(search)
        return search.find()
    return None


def _batches_from(
    segment: Segment, timestamp: int, log_start_offset: int
) -> Iterator[tuple[int, BatchHeader]]:
    """Headers from the position before which, by the time index, all timestamps are smaller."""
    offset = max(log_start_offset, segment.base_offset)
    entry = segment.time_index.floor_timestamp(timestamp - 1)
    if entry is not None and not _is_true(segment, entry):
        segment.distrust_indexes()
        entry = segment.time_index.floor_timestamp(timestamp - 1)
    # All timestamps up to the entry's offset are below `timestamp`: the entry has the greatest.
    if entry is not None:
        offset = max(offset, entry.offset)
    found = segment.find(offset)
    if found is None:
        return iter(())
    return walk_headers(segment.file, found[1], segment.size_bytes)


def _is_true(segment: Segment, entry: TimeEntry) -> bool:
    """Whether the batch at the entry's offset has the entry's timestamp."""
    found = segment.find(entry.offset) if entry.offset >= segment.base_offset else None
    if found is None or found[0] > entry.offset:
        return False
    for _, header in walk_headers(segment.file, found[1], segment.size_bytes):
        return header.max_timestamp == entry.timestamp
    return False


def _batch(segment: Segment, position: int, header: BatchHeader) -> memoryview:
    return memoryview(segment.file.pread(header.size_bytes, position))
