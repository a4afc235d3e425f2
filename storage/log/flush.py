"""What of a log is not safe on disk yet, and how the recovery point moves.

Everything below the recovery point must survive a power cut: batches, the indexes of finished
segments, the epoch file, the producer state, the names of new files. The index of the active
segment is written with a flush but not synced: recovery checks its entries before it relies on
them.
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

SNAPSHOT_INTERVAL_BYTES: Final = 16 << 20  # so far apart a flush writes producer snapshots


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
        """Whether partition.metadata was written and is not synced."""
        self.recovery_point = recovery_point
        self.snapshot_offset = -1
        self.start_offset = start_offset
        """Where the log starts after a crash, as a checkpoint on disk says."""
        self.start_unsynced = False
        """Whether segments below the log start may come back in a power cut: their names are not
        safely gone, so that only the checkpoint says where the log starts."""
        self.unflushed_bytes = 0

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed; no plan of it runs that goes by names."""
        self._directory = directory
        self._name_unsynced = True

    def loaded_clean(self, snapshot_offset: int) -> None:
        """All files are as a clean stop left them; -1: without a snapshot at the end."""
        self._name_unsynced = False
        # A log that never held a record was not synced (`final_plan`).
        self.directory_unsynced = self.recovery_point == 0
        self.snapshot_offset = snapshot_offset

    def name_is_safe(self) -> None:
        """The directory that the log's directory lies in was synced."""
        self._name_unsynced = False

    def names_are_safe(self) -> None:
        """An empty log's directory was synced, with partition.metadata and the one it lies in."""
        self._name_unsynced = self.directory_unsynced = self.id_unsynced = False

    def recovered(self, finished: list[Segment], size_bytes: int) -> None:
        """So many bytes were scanned and are as good as just appended."""
        self._rolled = tuple(finished)
        self.unflushed_bytes = size_bytes

    def rolled(self, segment: Segment) -> None:
        """A segment was finished and is not synced."""
        self._rolled = (*self._rolled, segment)
        self.directory_unsynced = True

    def snapshot(self, log: "Log", *, at_flush: bool = False) -> None:
        """Write the producer state at the log end, unsynced.  Raises: DiskFull, LogDirFailed."""
        offset = log.log_end_offset
        if offset == self.snapshot_offset:
            return
        path = snapshot_path(self._directory, offset)
        try:  # in the place of another one a restart may rely on, so it is not written over that
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
        """The fsyncs after which all that the log holds now is safe; None if it is.

        A full disk does not keep what is in the log from being made safe: the producers can be
        recovered from it, and index entries are written later.  Raises: LogDirFailed.
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
        """As `plan`, for a clean stop: with a snapshot at the end and the indexes in final form.

        A log that never held a record has nothing that could not be made again; one that was cut
        to nothing must not be what it was again.  Raises: DiskFull, LogDirFailed.
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
        """The fsyncs after which the recovery point may be `offset` because the log starts there.

        What lies before need not be safe any more; the snapshot of the roll at `offset` must be.
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
        """The fsyncs after which it is known whose log this is; then call `id_is_safe`."""
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
        """An `id_plan` was run."""
        self.id_unsynced = False

    def start_cut(self, gone: list[Segment]) -> None:
        """The oldest segments were taken out of the log; their files are still there."""
        self._rolled = tuple(segment for segment in self._rolled if segment not in gone)
        self.start_unsynced = True

    def _plan(self, log: "Log", *, with_active_index: bool) -> FlushPlan:
        active = log.segments.active
        log_files: list[LogFile] = [active.file]
        if not (with_active_index or active.txn_index.is_empty):
            log_files.append(active.txn_index.file)
        # By name, since there may be more of them than the process has descriptors. What has taken
        # such a name meanwhile, in compaction, is synced; what is gone is not of the log any more.
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
        # From here on the plan answers for these; if it fails the whole directory goes offline.
        self._rolled = self._unsynced_snapshots = ()
        self._cut_unsynced = False
        if self.directory_unsynced or paths:
            self._name_unsynced = False
        self.directory_unsynced = self.id_unsynced = log.epochs.unsynced = False
        self.unflushed_bytes = 0
        return plan

    def done(self, plan: FlushPlan) -> None:
        """The plan was run: move the recovery point, unless a truncation came between."""
        plan.release()
        if plan.generation == self._generation:
            self.recovery_point = max(self.recovery_point, plan.offset_end)

    def truncated(self, log_end_offset: int, gone: list[Segment]) -> None:
        """The log was cut: running plans count for nothing, snapshots above are removed."""
        self._generation += 1
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self._rolled = tuple(segment for segment in self._rolled if segment not in gone)
        self._flush_snapshots = _up_to(self._flush_snapshots, log_end_offset)
        self._unsynced_snapshots = _up_to(self._unsynced_snapshots, log_end_offset)
        self.snapshot_offset = -1
        self.directory_unsynced = self._cut_unsynced = True

    def replaced(self, gone: list[Segment]) -> None:
        """Segments were compacted: what took their place is synced."""
        replaced = set(gone)
        self._rolled = tuple(segment for segment in self._rolled if segment not in replaced)

    def safe_start_offset(self, log: "Log") -> int:
        """Where the log starts, as far as a crash does not take that back."""
        return min(log.log_start_offset, self.start_offset)

    def checkpointed(self, recovery_point: int, start_offset: int | None) -> None:
        """A checkpoint with these is on disk: older snapshots of flushes may go."""
        if start_offset is not None:  # else the log is younger
            self.start_offset = start_offset
        if not self._flush_snapshots:
            return
        below = [offset for offset in self._flush_snapshots if offset <= recovery_point]
        for offset in below[:-1]:
            self._files.unlink(snapshot_path(self._directory, offset))
        self._flush_snapshots = self._flush_snapshots[max(0, len(below) - 1) :]


def _up_to(offsets: tuple[int, ...], offset_max: int) -> tuple[int, ...]:
    return tuple(offset for offset in offsets if offset <= offset_max)
