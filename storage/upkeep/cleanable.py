"""Decides which logs to compact, and how far, by Kafka's rules; it compacts nothing itself.

The part below the first dirty offset has been compacted before. The cleanable part extends from
there to the first uncleanable segment: the active one, one that extends beyond the last stable
offset, or one younger than min.compaction.lag.ms. The filthiest log is the one whose cleanable part
is the largest share of what a compaction would read.  Source: LogCleanerManager and LogToClean of
Kafka 3.9.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import INT64_MAX
from odradek.protocol.records import HEADER_SIZE_BYTES, read_header

from ..log.log import Log
from ..log.segment import Segment
from .retention import newest_ms

logger: Final = logging.getLogger("odradek.storage")


class Cleanable(NamedTuple):
    """The part of a log that can be compacted now."""

    log: Log
    first_dirty_offset: int
    end_offset: int  # exclusive; base offset of the first uncleanable segment
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool  # by max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        """The cleanable part as a share of all bytes that would be read."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log should be compacted now."""
        if self.is_overdue and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio

    def segments(self) -> list[tuple[Segment, int]]:
        """The segments that a compaction reads, each with the base offset of the next one."""
        segments = list(self.log.segments)
        ends = [segment.base_offset for segment in segments[1:]]
        return [
            (segment, end)
            for segment, end in zip(segments, ends, strict=False)  # the active one has no end
            if segment.base_offset < self.end_offset
        ]

    def producers(self) -> list[tuple[int, int, int]]:
        """(producer id, epoch, last offset of its last batch or -1), if below the end offset."""
        return [
            (entry.producer_id, entry.producer_epoch, last_offset)
            for entry in self.log.producers.entries()
            for last_offset in (entry.batches[-1].last_offset if entry.batches else -1,)
            if last_offset < self.end_offset
        ]


def cleanable(log: Log, wall_ms: int) -> Cleanable:
    """The part of a log that can be compacted.  Raises: LogDirFailed.

    Resets `log.cleaner_offset` if it is outside the log.
    """
    first_dirty_offset = _first_dirty_offset(log)
    dirty = _finished_from(log, first_dirty_offset)
    active = log.segments.active
    limit = min(log.last_stable_offset, active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if newest_ms(log, segment) > wall_ms - lag_ms:
                limit = min(limit, segment.base_offset)
                break
    limit = max(first_dirty_offset, limit)
    # A partly uncleanable segment is not cleaned at all.
    if limit < active.base_offset:
        end_offset = log.segments.floor(limit).base_offset
    else:
        end_offset = active.base_offset
    return Cleanable(
        log,
        first_dirty_offset,
        end_offset,
        sum(s.size_bytes for s in log.segments if s.base_offset < first_dirty_offset),
        sum(segment.size_bytes for segment in dirty if segment.base_offset < end_offset),
        _is_overdue(log, dirty, wall_ms),
    )


def filthiest(candidates: Iterable[Cleanable]) -> Cleanable | None:
    """The log to compact first, of those that are due."""
    due = (candidate for candidate in candidates if candidate.is_due)
    return max(due, key=lambda candidate: candidate.ratio, default=None)


def _first_dirty_offset(log: Log) -> int:
    offset, start = log.cleaner_offset, log.log_start_offset
    if offset is None:
        return start
    if start <= offset <= log.log_end_offset:
        return offset
    # With cleanup.policy=compact,delete the log start keeps moving past it: no warning.
    if offset > log.log_end_offset or not log.config.deletes:
        logger.warning(
            "first dirty offset outside the log, reset to its start log=%r first_dirty_offset=%d",
            log,
            offset,
        )
    log.cleaner_offset = start
    return start


def _finished_from(log: Log, offset: int) -> list[Segment]:
    """The segments from the one with `offset` on, except the active one."""
    return log.segments.from_offset(offset)[:-1]


def _is_overdue(log: Log, dirty: Iterable[Segment], wall_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == INT64_MAX:
        return False
    return any(0 < _first_timestamp(segment) < wall_ms - lag_ms for segment in dirty)


def _first_timestamp(segment: Segment) -> int:
    """The greatest timestamp of the first batch, or -1."""
    try:
        return read_header(segment.file.pread(HEADER_SIZE_BYTES, 0)).max_timestamp
    except MalformedMessage:  # empty, or corrupt, which the compaction will find
        return -1
