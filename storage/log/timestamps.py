"""Look-ups by timestamp (ListOffsets)."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.protocol.records import BatchHeader, iter_records

from .index import TimeEntry
from .segment import Segment
from .segments import Segments
from .walk import walk_headers


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch that wrote it (-1: unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(
    segments: Segments, timestamp: int, *, log_start_offset: int, record_bytes_max: int
) -> TimestampOffset | None:
    """The first record at or after `log_start_offset` with a timestamp >= `timestamp`.

    Raises: CorruptLog, MalformedMessage (a batch that does not decompress), LogDirFailed.
    """
    for segment in segments:
        segment.load_max_timestamp()
        if segment.max_timestamp < timestamp:
            continue
        for position, header in _batches_from(segment, timestamp, log_start_offset):
            if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
                continue
            found = _first_record(
                segment, position, header, timestamp, log_start_offset, record_bytes_max
            )
            if found is not None:
                return found
    return None


def max_timestamp_offset(segments: Segments, *, record_bytes_max: int) -> TimestampOffset | None:
    """The first record with the log's greatest timestamp; None if no record has a timestamp.

    Raises: CorruptLog, MalformedMessage, LogDirFailed.
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
        return _first_record(newest, position, header, header.max_timestamp, 0, record_bytes_max)
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


def _first_record(
    segment: Segment,
    position: int,
    header: BatchHeader,
    timestamp: int,
    offset_first: int,
    record_bytes_max: int,
) -> TimestampOffset | None:
    batch = memoryview(segment.file.pread(header.size_bytes, position))
    for record in iter_records(batch, header, size_bytes_max=record_bytes_max):
        if record.timestamp >= timestamp and record.offset >= offset_first:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
