"""Tracks what of a log is not yet safe on disk, and moves the recovery point.

Everything below the recovery point must survive a power cut: batches, the indexes of finished
segments, leader-epoch-checkpoint, the producer state, and the directory entries of new files. The
indexes of the active segment are written with a flush but not synced: recovery checks their entries
before it relies on them.
"""

import contextlib
from typing import TYPE_CHECKING, Final

from ..errors import DiskFull, LogDirFailed
from ..files import FileSystem
from .checkpoint import PARTITION_METADATA
from .log_file import LogFile
from .plans import FlushPlan
from .producer_snapshot import encode_snapshot, snapshot_path
from .segment import Segment

if TYPE_CHECKING:
    from .log import Log

SNAPSHOT_INTERVAL_BYTES: Final = 16 << 20  # between the producer snapshots that flushes write


class Flushing:
    """The flush state of one log."""

    __slots__ = (
        "_cut_unsynced",
        "_directory",
        "_files",
        "_flush_snapshots",
        "_generation",
        "_name_unsynced",
        "_rolled",
        "_snapshot_bytes",
        "_unsynced_snapshots",
        "directory_unsynced",
        "id_unsynced",
        "recovery_point",
        "snapshot_offset",
        "start_offset",
        "start_unsynced",
        "unflushed_bytes",
    )

    def __init__(
        self, files: FileSystem, directory: str, recovery_point: int, start_offset: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._cut_unsynced = False
        self._generation = 0
        self._rolled: tuple[Segment, ...] = ()
        self._snapshot_bytes = 0
        self._flush_snapshots: tuple[int, ...] = ()
        self._unsynced_snapshots: tuple[int, ...] = ()
        self._name_unsynced = True
        self.directory_unsynced = True
        self.id_unsynced = False
        """Whether partition.metadata is written but not synced."""
        self.recovery_point = recovery_point
        self.snapshot_offset = -1
        self.start_offset = start_offset
        """The log start offset after a crash: the one in the checkpoint on disk."""
        self.start_unsynced = False
        """Whether removed segments below the log start may reappear after a power cut. Only the
        checkpoint then says where the log starts."""
        self.unflushed_bytes = 0

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory was renamed; no plan that uses paths may be running."""
        self._directory = directory
        self._name_unsynced = True

    def loaded_clean(self, snapshot_offset: int) -> None:
        """Note that a clean shutdown left these files; -1: no snapshot at the log end offset."""
        self._name_unsynced = False
        # A log that never held a record was not synced (`final_plan`).
        self.directory_unsynced = self.recovery_point == 0
        self.snapshot_offset = snapshot_offset

    def name_is_safe(self) -> None:
        """Note that the parent directory was synced."""
        self._name_unsynced = False

    def names_are_safe(self) -> None:
        """Note that an empty log's directory, its parent and partition.metadata were synced."""
        self._name_unsynced = self.directory_unsynced = self.id_unsynced = False

    def recovered(self, finished: list[Segment], size_bytes: int) -> None:
        """Note that recovery scanned `size_bytes`: treat them as just appended, not yet synced."""
        self._rolled = tuple(finished)
        self.unflushed_bytes = size_bytes

    def rolled(self, segment: Segment) -> None:
        """Note that a segment was finished and is not synced."""
        self._rolled = (*self._rolled, segment)
        self.directory_unsynced = True

    def snapshot(self, log: "Log", *, at_flush: bool = False) -> None:
        """Write a producer snapshot at the log end, unsynced.  Raises: DiskFull, LogDirFailed."""
        offset = log.log_end_offset
        if offset == self.snapshot_offset:
            return
        path = snapshot_path(self._directory, offset)
        try:  # atomic: a restart may rely on an older snapshot of the same name
            self._files.write_atomic(path, encode_snapshot(log.producers), sync=False)
        except DiskFull:
            with contextlib.suppress(LogDirFailed):
                self._files.unlink(f"{path}.tmp")
            raise
        self.snapshot_offset = offset
        self._snapshot_bytes = 0
        self._unsynced_snapshots = (*self._unsynced_snapshots, offset)
        self.directory_unsynced = True
        if at_flush:
            self._flush_snapshots = (*self._flush_snapshots, offset)

    def plan(self, log: "Log") -> FlushPlan | None:
        """The fsyncs that make everything in the log safe; None if it already is.

        A full disk does not prevent this: the producer state can be rebuilt from the log, and index
        entries are written later.  Raises: LogDirFailed.
        """
        is_safe = self.recovery_point >= log.log_end_offset
        if is_safe and not (self._rolled or self._cut_unsynced):
            return None
        self._snapshot_bytes += self.unflushed_bytes
        if self._snapshot_bytes >= SNAPSHOT_INTERVAL_BYTES:
            with contextlib.suppress(DiskFull):
                self.snapshot(log, at_flush=True)
        with contextlib.suppress(DiskFull):
            log.segments.active.write_indexes()
        return self._plan(log, with_active_index=False)

    def final_plan(self, log: "Log") -> FlushPlan | None:
        """As `plan`, for a clean shutdown: with a snapshot at the end and indexes in final form.

        A log that never held a record needs no fsync: all its files can be recreated. A log that
        was truncated to 0 needs one, or its records could reappear.
        Raises: DiskFull, LogDirFailed.
        """
        is_empty = log.log_end_offset == 0
        if is_empty and not self._cut_unsynced:
            return None
        log.segments.active.finish()
        if not is_empty:
            self.snapshot(log)
        if log.epochs.lags:
            log.epochs.write()
        unsynced = (
            self.directory_unsynced or self.id_unsynced or self._rolled or log.epochs.unsynced
        )
        if not (unsynced or self.unflushed_bytes):
            return None
        return self._plan(log, with_active_index=True)

    def start_plan(self, log: "Log", offset: int) -> FlushPlan:
        """The fsyncs after which the recovery point may be `offset`, where the log starts.

        Nothing before `offset` needs to be safe; the snapshot of the roll at `offset` does.
        """
        return FlushPlan(
            self._files,
            offset_end=offset,
            size_bytes=0,
            generation=self._generation,
            log_files=(),
            paths=(snapshot_path(self._directory, offset), log.epochs.path),
            directories=(self._directory, self._directory.rpartition("/")[0]),
        )

    def id_plan(self) -> FlushPlan:
        """The fsyncs that make the topic id safe; then call `id_is_safe`."""
        return FlushPlan(
            self._files,
            offset_end=0,
            size_bytes=0,
            generation=self._generation,
            log_files=(),
            paths=(f"{self._directory}/{PARTITION_METADATA}",),
            directories=(self._directory,),
        )

    def id_is_safe(self) -> None:
        """Note that an `id_plan` ran."""
        self.id_unsynced = False

    def start_cut(self, gone: list[Segment]) -> None:
        """Note that the oldest segments were removed from the log; their files still exist."""
        self._rolled = tuple(segment for segment in self._rolled if segment not in gone)
        self.start_unsynced = True

    def _plan(self, log: "Log", *, with_active_index: bool) -> FlushPlan:
        active = log.segments.active
        log_files: list[LogFile] = [active.file]
        if not (with_active_index or active.txn_index.is_empty):
            log_files.append(active.txn_index.file)
        # By path, since there may be more files than the process has descriptors. If compaction
        # replaces one meanwhile, the new file is synced; one that is gone has left the log.
        finished = (*self._rolled, active) if with_active_index else self._rolled
        paths = [file.path for segment in finished for file in segment.all_files()]
        paths += [snapshot_path(self._directory, offset) for offset in self._unsynced_snapshots]
        if log.epochs.unsynced:
            paths.append(log.epochs.path)
        if self.id_unsynced:
            paths.append(f"{self._directory}/{PARTITION_METADATA}")
        directories = [self._directory]
        if self._name_unsynced:
            directories.append(self._directory.rpartition("/")[0])
        plan = FlushPlan(
            self._files,
            offset_end=log.log_end_offset,
            size_bytes=self.unflushed_bytes,
            generation=self._generation,
            log_files=log_files,
            paths=paths,
            directories=directories if self.directory_unsynced or paths else (),
        )
        # The plan is responsible for these from now on; if it fails, the directory goes offline.
        self._rolled = self._unsynced_snapshots = ()
        self._cut_unsynced = False
        if self.directory_unsynced or paths:
            self._name_unsynced = False
        self.directory_unsynced = self.id_unsynced = log.epochs.unsynced = False
        self.unflushed_bytes = 0
        return plan

    def done(self, plan: FlushPlan) -> None:
        """Move the recovery point after the plan ran, unless the log was truncated meanwhile."""
        plan.release()
        if plan.generation == self._generation:
            self.recovery_point = max(self.recovery_point, plan.offset_end)

    def truncated(self, log_end_offset: int, gone: list[Segment]) -> None:
        """Note a truncation: void running plans, forget snapshots above the new end."""
        self._generation += 1
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self._rolled = tuple(segment for segment in self._rolled if segment not in gone)
        self._flush_snapshots = _up_to(self._flush_snapshots, log_end_offset)
        self._unsynced_snapshots = _up_to(self._unsynced_snapshots, log_end_offset)
        self.snapshot_offset = -1
        self.directory_unsynced = self._cut_unsynced = True

    def replaced(self, gone: list[Segment]) -> None:
        """Note that segments were compacted; their replacements are synced."""
        replaced = set(gone)
        self._rolled = tuple(segment for segment in self._rolled if segment not in replaced)

    def safe_start_offset(self, log: "Log") -> int:
        """The log start offset that a crash can't move back."""
        return min(log.log_start_offset, self.start_offset)

    def checkpointed(self, recovery_point: int, start_offset: int | None) -> None:
        """Note that a checkpoint with these is on disk, and remove older snapshots of flushes.

        Raises: LogDirFailed.
        """
        if start_offset is not None:  # otherwise the log is newer than the checkpoint
            self.start_offset = start_offset
        if not self._flush_snapshots:
            return
        below = [offset for offset in self._flush_snapshots if offset <= recovery_point]
        for offset in below[:-1]:
            self._files.unlink(snapshot_path(self._directory, offset))
        self._flush_snapshots = self._flush_snapshots[max(0, len(below) - 1) :]


def _up_to(offsets: tuple[int, ...], offset_max: int) -> tuple[int, ...]:
    return tuple(offset for offset in offsets if offset <= offset_max)
