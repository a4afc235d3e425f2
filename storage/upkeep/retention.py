"""Retention: which of the oldest segments go, and how they go without a gap at any point.

Kafka's rules (UnifiedLog.deletableSegments): only whole segments below the high watermark, oldest
first, up to the first that may stay. If all go, an empty one is begun before; while there is no
room for that, the active one stays.

The order that makes it safe: the log start moves (`expire`: readers are told at once), what a start
from there relies on is synced (`start_plan`), the log start is written to its checkpoint, the
segments are taken out and their files renamed to `.deleted` (`remove_plan`), and after a delay
unlinked. A crash in between leaves files below the log start, which nobody sees and which go at the
next check.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from ..errors import DiskFull, LogDirFailed
from ..files import FileSystem
from ..log.log import Log
from ..log.log_config import LogConfig
from ..log.plans import FlushPlan
from ..log.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from ..log.producer_snapshot import snapshot_offsets, snapshot_path
from ..log.segment import Segment

FILE_DELETED_SUFFIX: Final = ".deleted"


class Sized(Protocol):
    """What the decision looks at; its age comes from elsewhere, since it may have to be read."""

    base_offset: int

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        ...


S = TypeVar("S", bound=Sized)


def count_deletable(
    segments: Sequence[S],
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    config: LogConfig,
    wall_ms: int,
    newest_ms: Callable[[S], int],
) -> int:
    """How many of the oldest segments go now; all of them: the active one is to be rolled.

    `newest_ms` is asked only as far as it matters.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    count_max = sum(end <= high_watermark for end in ends)
    if count_max == len(segments) and segments[-1].size_bytes == 0:
        count_max -= 1
    count = 0
    while count < min(count_max, len(segments) - 1) and ends[count] <= log_start_offset:
        count += 1
    if not config.deletes:
        return count
    if config.retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments[count:]) - config.retention_bytes
        while count < count_max and excess >= segments[count].size_bytes:
            excess -= segments[count].size_bytes
            count += 1
    if config.retention_ms >= 0:
        while count < count_max and wall_ms - newest_ms(segments[count]) > config.retention_ms:
            count += 1
    return count


def expire(log: Log, wall_ms: int) -> int | None:
    """Move the log start past what is too old or too much; None: no segment is to go.

    Returns the offset before which whole segments may go once the start is durable; for that see
    `start_plan`.  Raises: DiskFull (only the active segment is left, and is to go), LogDirFailed.
    """
    segments = list(log.segments)
    count = count_deletable(
        segments,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
        config=log.config,
        wall_ms=wall_ms,
        newest_ms=lambda segment: newest_ms(log, segment),
    )
    if count == 0:
        return None
    if count == len(segments):
        try:
            log.roll(log.log_end_offset, wall_ms)
        except DiskFull:
            # Nobody can append to a full disk, so that soon all of every log is too old: the
            # others must make the room.
            count -= 1
            if count == 0:
                raise
    offset = log.segments[count].base_offset
    log.advance_log_start(offset)
    return offset


def newest_ms(log: Log, segment: Segment) -> int:
    """The greatest timestamp of a segment; of one without timestamps when it was written last.

    One that compaction has emptied counts as old: when that was says nothing.
    """
    if segment.size_bytes == 0:
        return 0
    if segment.max_timestamp < 0:
        segment.load_max_timestamp()
        if not segment.prepared:
            segment.rest()
    if segment.max_timestamp >= 0:
        return segment.max_timestamp
    return log.files.modified_ms(segment.file.path)


def knows_producers_from(log: Log, offset: int) -> bool:
    """Whether producers are known after a crash without the batches before `offset`.

    If not, a snapshot is written, which the next flush makes good.  Raises: DiskFull, LogDirFailed.
    """
    if not len(log.producers) or log.files.exists(snapshot_path(log.directory, offset)):
        return True
    known = snapshot_offsets(log.files.list_directory(log.directory))
    if any(offset <= other <= log.recovery_point for other in known):
        return True
    log.flushing.snapshot(log, at_flush=True)
    return False


def remove_plan(log: Log, offset: int) -> "RemovePlan | None":
    """Take out the segments that end at or before `offset`; None if there are none (any more).

    A checkpoint with a log start of at least `offset` must be on disk.  `plan.run()` in any thread,
    then `removed(log)` here, then `plan.unlink_plan()` when the delay is over.  Raises:
    LogDirFailed.
    """
    if log.epochs.lags:
        with contextlib.suppress(DiskFull):  # it may go on lagging
            log.epochs.write()
    gone = log.cut_start(offset)
    return RemovePlan(log, gone, log.segments.first_offset) if gone else None


def removed(log: Log) -> None:
    """A `RemovePlan` was run: the names of the files say where the log starts."""
    log.flushing.start_unsynced = False


def start_plan(log: Log, offset: int) -> FlushPlan:
    """The fsyncs after which the log may start at `offset`.

    `plan.run()` in any thread, then `log.flushed(plan)` here.  Raises: LogDirFailed.
    """
    return log.flushing.start_plan(log, offset)


class RemovePlan:
    """Rename the files of segments that were taken out; `UnlinkPlan` ends it."""

    __slots__ = ("_directory", "_files", "_names", "_offset", "_renamed", "count")

    def __init__(self, log: Log, gone: Sequence[Segment], offset: int) -> None:
        self._files = log.files
        self._directory = log.directory
        self.count = len(gone)
        self._names = [path.rpartition("/")[2] for segment in gone for path in segment.paths()]
        self._offset = offset
        self._renamed: list[str] = []

    def run(self) -> None:
        """Rename, then sync the directory.  A partition that was deleted meanwhile is fine.

        Raises: LogDirFailed.
        """
        try:
            self._run()
        except LogDirFailed as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise

    def _run(self) -> None:
        infos = self._files.list_directory(self._directory)
        there = {info.name for info in infos}
        # Oldest first, and a log before its indexes: what a crash leaves is a log without them.
        names = [name for name in self._names if name in there]
        names += [
            f"{offset:020d}{SNAPSHOT_SUFFIX}"
            for offset in snapshot_offsets(infos)
            if offset < self._offset
        ]
        for name in names:
            path = f"{self._directory}/{name}"
            self._files.rename(path, path + FILE_DELETED_SUFFIX)
            self._renamed.append(path + FILE_DELETED_SUFFIX)
        self._files.sync_path(self._directory)

    def unlink_plan(self) -> "UnlinkPlan":
        """What is left to do once `run` has ended."""
        return UnlinkPlan(self._files, self._renamed)


class UnlinkPlan:
    """Unlink files that were renamed out of the way."""

    __slots__ = ("_files", "_paths")

    def __init__(self, files: FileSystem, paths: Sequence[str]) -> None:
        self._files = files
        self._paths = paths

    def run(self) -> None:
        """Unlink them; what is gone already is fine.  Raises: LogDirFailed."""
        for path in self._paths:
            self._files.unlink(path)
