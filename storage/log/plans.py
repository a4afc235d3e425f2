"""Slow disk work as objects: made on the event loop, run in any thread, reported back to the log.

`run()` only makes system calls that release the GIL, and touches no state of the log, so the broker
may offload it. A plan runs once. The descriptors that it needs stay open until `release`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import LogDirFailed
from ..files import FileSystem
from .checkpoint import PARTITION_METADATA
from .log_file import Bytes, LogFile

if TYPE_CHECKING:
    from .log import Log


class FlushPlan:
    """fsync of everything that a recovery point of `offset_end` relies on.

    `log_files` may be appended to meanwhile, and are held open; the other paths are opened by `run`
    one at a time.
    """

    __slots__ = (
        "_directories",
        "_files",
        "_log_files",
        "_paths",
        "generation",
        "offset_end",
        "size_bytes",
    )

    def __init__(
        self,
        files: FileSystem,
        *,
        offset_end: int,
        size_bytes: int,
        generation: int,
        log_files: Sequence[LogFile],
        paths: Sequence[str],
        directories: Sequence[str],
    ) -> None:
        for file in log_files:
            file.ref()
        self._files = files
        self._log_files = list(log_files)
        self._paths = paths
        self._directories = directories
        self.generation = generation
        self.offset_end = offset_end
        self.size_bytes = size_bytes

    def run(self) -> None:
        """Sync the files, then the directories that contain them.  Raises: LogDirFailed."""
        for file in self._log_files:
            file.sync()
        for path in (*self._paths, *self._directories):
            self._files.sync_path(path)

    def release(self) -> None:
        """Release the descriptors; call it on the loop, even if `run` failed.  Idempotent."""
        while self._log_files:
            self._log_files.pop().unref()


class CreatePlan:
    """Create one empty partition; nothing else uses its log before `DataDir.created`."""

    __slots__ = ("_create", "_files", "directory", "error", "log")

    def __init__(self, files: FileSystem, directory: str, create: Callable[[], "Log"]) -> None:
        self._files = files
        self._create = create
        self.directory = directory
        self.log: Log | None = None
        self.error: LogDirFailed | None = None

    def run(self) -> None:
        """Create the directory and its files, safe on disk; a failure is kept in `error`."""
        create_together((self,))

    def make(self) -> None:
        """Create the partition, unsynced."""
        try:
            self.log = self._create()
        except LogDirFailed as error:
            self._fail(error)

    def sync(self, path: str) -> None:
        """fsync a file or directory, unless an earlier step failed."""
        if self.error is None:
            try:
                self._files.sync_path(path)
            except LogDirFailed as error:
                self._fail(error)

    def _fail(self, error: LogDirFailed) -> None:
        """Remove the incomplete partition: it may be created in another log directory next."""
        self.log, self.error = None, error
        try:
            self._files.remove_tree(self.directory)
        except LogDirFailed as worse:
            self.error = worse


def create_together(plans: Sequence[CreatePlan]) -> None:
    """Run the plans of many partitions, in one or several data directories; in any thread.

    This makes the topic id and the directory entry of the first segment safe. Otherwise a power cut
    might leave records without a topic id, which any topic of that name could adopt, or only later
    segments. All files are synced before all directories: fewer commits of the file system journal.
    """
    for plan in plans:
        plan.make()
    for plan in plans:
        plan.sync(f"{plan.directory}/{PARTITION_METADATA}")
    for plan in plans:
        plan.sync(plan.directory)
    synced = set()
    for plan in plans:
        parent = plan.directory.rpartition("/")[0]
        if parent not in synced:
            plan.sync(parent)
            if plan.error is None:
                synced.add(parent)
        if plan.log is not None:
            plan.log.flushing.names_are_safe()


class DeletePlan:
    """Remove a partition's directory, which has already been renamed to its `-delete` name."""

    __slots__ = ("_files", "directory")

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self.directory = directory

    def run(self) -> None:
        """Remove the directory and its files.  Raises: LogDirFailed."""
        self._files.remove_tree(self.directory)


class CheckpointPlan:
    """Write checkpoint files; only one plan per directory may run at a time."""

    __slots__ = ("_contents", "_files", "log_starts", "recovery_points")

    def __init__(
        self,
        files: FileSystem,
        contents: Sequence[tuple[str, Bytes]],
        recovery_points: dict[tuple[str, int], int],
        log_starts: "Mapping[Log, int]",
    ) -> None:
        self._files = files
        self._contents = contents
        self.recovery_points = recovery_points
        self.log_starts = log_starts

    def run(self) -> None:
        """Replace each file atomically, with fsync.  Raises: DiskFull, LogDirFailed."""
        for path, data in self._contents:
            self._files.write_atomic(path, data)
