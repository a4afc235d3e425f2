"""Retention: decides which of the oldest segments to delete, and deletes them crash-safely.

Kafka's rules (UnifiedLog.deletableSegments): only whole segments below the high watermark, oldest
first, up to the first one to keep. To delete all of them, the log first rolls to an empty segment;
if the disk is too full for that, the active segment stays.

The steps, in an order that is safe: `expire` moves the log start offset, which readers see at once;
`start_plan` syncs what a log that starts there relies on; the log start is checkpointed;
`remove_plan` removes the segments from the log and renames their files to `.deleted`; after a delay
the files are unlinked. A crash in between leaves files below the log start, which are invisible and
removed at the next check.
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
    """A segment, as far as the decision needs it; its age is separate, since it may need a read."""

    base_offset: int

    @property
    def size_bytes(self) -> int:
        """Size of the `.log` file."""
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
    """How many of the oldest segments to delete now; if all of them, the log must roll first.

    `newest_ms`: a segment's greatest timestamp; called for as few segments as possible.
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
    """Move the log start past the segments to delete; None: there are none.

    Returns the offset before which segments may be removed once the log start is durable, for which
    see `start_plan`.  Raises: DiskFull (the only segment must be deleted but can't roll),
    LogDirFailed.
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
            # A full disk takes no appends, so eventually all segments of all logs are too old:
            # deleting the other segments must free the space.
            count -= 1
            if count == 0:
                raise
    offset = log.segments[count].base_offset
    log.advance_log_start(offset)
    return offset


def newest_ms(log: Log, segment: Segment) -> int:
    """The greatest timestamp of a segment; without timestamps, the file's modification time.

    A segment that compaction emptied counts as old: the time of the compaction is no measure.
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
    """Whether recovery can restore the producer state without the batches before `offset`.

    If not, this writes a snapshot, which the next flush syncs.  Raises: DiskFull, LogDirFailed.
    """
    if not len(log.producers) or log.files.exists(snapshot_path(log.directory, offset)):
        return True
    known = snapshot_offsets(log.files.list_names(log.directory))
    if any(offset <= other <= log.recovery_point for other in known):
        return True
    log.flushing.snapshot(log, at_flush=True)
    return False


def remove_plan(log: Log, offset: int) -> "RemovePlan | None":
    """Remove the segments that end at or before `offset` from the log; None if there are none.

    A checkpoint with a log start of at least `offset` must be on disk. Call `plan.run()` in any
    thread, then `removed(log)` here, then run `plan.unlink_plan()` after file.delete.delay.ms.
    Raises: LogDirFailed.
    """
    if log.epochs.lags:
        with contextlib.suppress(DiskFull):  # the file may keep lagging
            log.epochs.write()
    gone = log.cut_start(offset)
    return RemovePlan(log, gone, log.segments.first_offset) if gone else None


def removed(log: Log) -> None:
    """Note that a `RemovePlan` ran: the remaining files now show where the log starts."""
    log.flushing.start_unsynced = False


def start_plan(log: Log, offset: int) -> FlushPlan:
    """The fsyncs after which the log may start at `offset`.

    Call `plan.run()` in any thread, then `log.flushed(plan)` here.  Raises: LogDirFailed.
    """
    return log.flushing.start_plan(log, offset)


class RemovePlan:
    """Rename the files of removed segments to `.deleted`; `UnlinkPlan` unlinks them."""

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
        there = set(self._files.list_names(self._directory))
        # Oldest first, and a log before its indexes: a crash then leaves only indexes, which
        # loading removes.
        names = [name for name in self._names if name in there]
        names += [
            f"{offset:020d}{SNAPSHOT_SUFFIX}"
            for offset in snapshot_offsets(there)
            if offset < self._offset
        ]
        for name in names:
            path = f"{self._directory}/{name}"
            self._files.rename(path, path + FILE_DELETED_SUFFIX)
            self._renamed.append(path + FILE_DELETED_SUFFIX)
        self._files.sync_path(self._directory)

    def unlink_plan(self) -> "UnlinkPlan":
        """The plan to unlink the renamed files; call this after `run`."""
        return UnlinkPlan(self._files, self._renamed)


class UnlinkPlan:
    """Unlink files that were renamed to `.deleted`."""

    __slots__ = ("_files", "_paths")

    def __init__(self, files: FileSystem, paths: Sequence[str]) -> None:
        self._files = files
        self._paths = paths

    def run(self) -> None:
        """Unlink the files; missing ones are fine.  Raises: LogDirFailed."""
        for path in self._paths:
            self._files.unlink(path)
