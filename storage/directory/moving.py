"""Moves a replica from one log directory to another, while the old one is served.

The copy is a log of its own, in a directory with the suffix `-future`: batches are appended to it
byte for byte until it has caught up. State that is not in the batches (epochs without records,
producers whose batches are gone, the log start offset) is copied too. The following order makes
sure that the next start finds a complete replica, no matter when the broker dies:

1. A marker is written into the copy, which is flushed as far as the old log was.
2. The copy gets its final name. Now two directories have the partition's name; the marker tells
   the next start (`resolve`) that the longer log is the replica.
3. Batches appended meanwhile are copied, the copy is served, the old log is renamed to `-delete`.
4. The marker is removed.

Apache Kafka renames in the same order, but has no marker: after a crash between 2 and 3 it refuses
to start.
"""

import logging
from typing import Final

from odradek.protocol.records import iter_batches

from ..errors import DataDirError, DiskFull
from ..log.leader_epochs import LeaderEpochs
from ..log.log import DELETED_SUFFIX, Log
from ..log.plans import DeletePlan
from ..log.producer_state import ProducerState
from ..log.span import Span
from .data_dir import DataDir

logger: Final = logging.getLogger("odradek.storage")

MARKER: Final = ".odradek-moved-here"
FUTURE_SUFFIX: Final = "-future"


def future_directory(topic: str, partition: int, uuid: bytes) -> str:
    """The name of a copy's directory; `uuid`: 16 random bytes."""
    return f"{topic}-{partition}.{uuid.hex()}{FUTURE_SUFFIX}"


class Copy:
    """The old log and its copy; the caller reads the span of `next_span` in a thread."""

    def __init__(self, source: Log, future: Log) -> None:
        self.source = source
        self.future = future
        self._generation = source.generation
        if self._must_restart() or self._has_parted():
            self.restart()
        elif future.recovery_point < future.log_end_offset:
            self._cut_to_durable()

    @property
    def lag(self) -> int:
        """Number of offsets not yet copied."""
        return self.source.log_end_offset - self.future.log_end_offset

    @property
    def is_as_safe(self) -> bool:
        """Whether a crash would lose no more of the copy than of the old log."""
        source, future = self.source, self.future
        source_start = source.flushing.safe_start_offset(source)
        future_start = future.flushing.safe_start_offset(future)
        return future.recovery_point >= source.recovery_point and future_start >= source_start

    def _must_restart(self) -> bool:
        """Whether to start over: the copy is empty, or no longer a prefix of the old log."""
        source, future = self.source, self.future
        return (
            source.generation != self._generation
            or source.cleaner_offset != future.cleaner_offset
            or future.log_end_offset > source.log_end_offset
            or future.log_end_offset < source.log_start_offset
            or future.log_end_offset == future.segments.first_offset
        )

    def _has_parted(self) -> bool:
        """Whether the two logs diverge by their leader epochs.

        They do if in the last run the old log was truncated below the copy's end and appended to.
        """
        epoch = self.future.epochs.latest
        shared = self.source.end_offset_for_epoch(epoch)
        return epoch >= 0 and (shared[0] != epoch or shared[1] < self.future.log_end_offset)

    def _cut_to_durable(self) -> None:
        """Drop the unsynced part of the copy, of which a power cut may have lost parts."""
        future = self.future
        if future.recovery_point <= future.segments.first_offset:
            self.restart()
        else:
            future.truncate(future.recovery_point)

    def restart(self) -> None:
        """Start the copy over.  Raises: DiskFull, LogDirFailed."""
        source, future = self.source, self.future
        start = source.log_start_offset
        self._generation = source.generation
        if future.log_end_offset != start or future.size_bytes:
            future.restart_at(start)
        future.cleaner_offset = source.cleaner_offset
        # These producers have no batch left to copy.
        gone = [e for e in source.producers.entries() if _last_offset(e.batches) < start]
        future.producers = ProducerState(gone)

    def next_span(self, size_bytes: int) -> Span | None:
        """The batches to append next; the caller must release the span.  None: caught up.

        Raises: CorruptLog, DiskFull, LogDirFailed.
        """
        source, future = self.source, self.future
        # Even without lag: after a truncation, other records may have taken the same offsets.
        if self._must_restart() and (self.lag or source.generation != self._generation):
            self.restart()
        end = source.log_end_offset
        if future.log_end_offset >= end:
            return None
        return source.read(future.log_end_offset, size_bytes_max=size_bytes, offset_end=end)

    def append(self, data: bytes, wall_ms: int) -> None:
        """Append whole batches.  Raises: CorruptLog, MalformedMessage, DiskFull, LogDirFailed."""
        future = self.future
        if not future.size_bytes:
            _, first = next(iter_batches(data))
            if first.base_offset < future.log_end_offset:  # the log start is inside a batch
                producers = future.producers
                future.restart_at(first.base_offset)
                future.producers = producers
        future.append_as_follower(memoryview(data), wall_ms=wall_ms)
        self.follow()

    def follow(self) -> None:
        """Take over settings, high watermark and log start of the old log, up to the copy's end."""
        source, future = self.source, self.future
        future.config = source.config
        future.high_watermark = source.high_watermark
        start = min(source.log_start_offset, future.high_watermark)
        future.advance_log_start(start)

    def skip_to_end(self, wall_ms: int) -> None:
        """End the copy where the old log ends, if the last offsets have no records any more.

        Raises: DiskFull, LogDirFailed.
        """
        if self.lag > 0:
            self.future.roll(self.source.log_end_offset, wall_ms)
            self.future.log_end_offset = self.source.log_end_offset

    def complete(self) -> None:
        """Take over the state that is not in the batches; the copy has all of them.

        Raises: DiskFull, LogDirFailed.
        """
        source, future = self.source, self.future
        assert self.lag == 0
        self.follow()
        if future.epochs.entries() != source.epochs.entries():
            future.epochs = LeaderEpochs(future.files, future.directory, source.epochs.entries())
            future.epochs.write()
        future.producers = source.producers
        future.log_start_offset = max(future.log_start_offset, source.log_start_offset)

    def mark(self) -> None:
        """Write the marker, synced; in any thread.  Raises: DiskFull, LogDirFailed."""
        self.future.files.write_atomic(f"{self.future.directory}/{MARKER}", b"")

    def unmark(self) -> None:
        """Remove the marker.  Raises: LogDirFailed."""
        self.future.files.unlink(f"{self.future.directory}/{MARKER}")


def _last_offset(batches: tuple[object, ...]) -> int:
    return getattr(batches[-1], "last_offset", -1) if batches else -1


def rename_log(log: Log, directory: str) -> None:
    """Rename the directory of a log in use; no thread may be using paths in it.

    Raises: LogDirFailed.
    """
    log.files.rename(log.directory, directory)
    old = f"{log.directory}/"
    log.directory = directory
    log.flushing.moved_to(directory)
    log.epochs.moved_to(directory)
    for segment in log.segments:
        segment.directory = directory
        indexes = segment.offset_index.file, segment.time_index.file, segment.txn_index.file
        for file in (segment.file, *indexes):
            file.path = f"{directory}/{file.path.removeprefix(old)}"


def give_final_name(future: Log, data_dir: DataDir) -> None:
    """Do step 2.  The caller must sync the data directory.  Raises: LogDirFailed."""
    rename_log(future, f"{data_dir.path}/{future.topic}-{future.partition}")


def give_future_name(log: Log, data_dir: DataDir) -> None:
    """Undo step 2.  Raises: LogDirFailed."""
    name = future_directory(log.topic, log.partition, log.topic_id or bytes(16))
    rename_log(log, f"{data_dir.path}/{name}")


def retire(source: Log, data_dir: DataDir, uuid: bytes) -> DeletePlan:
    """Rename the old log in step 3; it stays readable until the plan runs.

    The caller must sync the data directory, and abandon the log.  Raises: LogDirFailed.
    """
    directory = f"{data_dir.path}/{source.topic[:150]}-{source.partition}.{uuid.hex()}"
    rename_log(source, directory + DELETED_SUFFIX)
    return DeletePlan(source.files, source.directory)


def resolve(dirs: list[DataDir]) -> None:
    """Complete or undo the moves that the last run left between steps 1 and 4.

    Raises: DataDirError (a partition is in two directories for another reason), LogDirFailed.
    """
    seen: dict[tuple[str, int], DataDir] = {}
    for data_dir in dirs:
        for key in list(data_dir.logs):
            if key in seen:
                _resolve_two(seen[key], data_dir, key)
            if key in data_dir.logs:
                seen[key] = data_dir
            for other in dirs:  # it can't be loaded there, so it is unknown which one is newer
                if key in other.unserved and key in data_dir.logs:
                    unserved = other.unserved[key].found.directory
                    raise _doubled(data_dir.logs[key].directory, unserved)
        for key in data_dir.futures:
            for other in dirs:
                if other is not data_dir and key in other.futures:
                    futures = data_dir.futures[key], other.futures[key]
                    raise _doubled(*(log.directory for log in futures))
    for data_dir in dirs:
        for log in data_dir.logs.values():
            if _is_marked(log):
                log.files.unlink(f"{log.directory}/{MARKER}")


def _has_start_of(old: Log, new: Log, new_dir: DataDir) -> bool:
    """Raise the copy's log start to that of the old log, which clients may have seen.

    False: the disk is too full to checkpoint it. The old log then stays, and the move ends later.
    """
    if new.log_start_offset < old.log_start_offset:
        new.high_watermark = max(new.high_watermark, old.log_start_offset)
        new.advance_log_start(old.log_start_offset)
        try:
            new_dir.checkpoint()
        except DiskFull:
            return False
    return True


def _is_marked(log: Log) -> bool:
    return log.files.exists(f"{log.directory}/{MARKER}")


def _doubled(*directories: str) -> DataDirError:
    return DataDirError(
        f"{' and '.join(sorted(directories))} hold the same partition: move one of them away, "
        "best the one whose disk has failed before"
    )


def _resolve_two(old_dir: DataDir, new_dir: DataDir, key: tuple[str, int]) -> None:
    """Keep the longer log as the replica: complete the move after step 2, or undo step 2."""
    if _is_marked(old_dir.logs[key]):
        old_dir, new_dir = new_dir, old_dir
    old, new = old_dir.logs[key], new_dir.logs[key]
    if _is_marked(old) or not _is_marked(new):
        raise _doubled(old.directory, new.directory)
    if new.log_end_offset >= old.log_end_offset and _has_start_of(old, new, new_dir):
        logger.warning("move is completed directory=%s", new.directory)
        plan = retire(old, old_dir, old.topic_id or bytes(16))
        old_dir.logs.pop(key).abandon()
        old_dir.note_deleted(plan.directory)
        old.files.sync_path(old_dir.path)
    else:
        logger.warning("move continues from=%s to=%s", old.directory, new.directory)
        give_future_name(new, new_dir)
        new_dir.futures[key] = new_dir.logs.pop(key)
