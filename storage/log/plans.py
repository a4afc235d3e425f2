"""Slow disk work as values: made on the loop, run in any thread, then reported back to the log.

`run()` only makes system calls that release the GIL and touches no state of the log, so the
broker may give it to its offload. A plan is run once. The descriptors that it needs stay open
until `release`.
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

    `log_files` are those that may be appended to meanwhile; all else is opened in its turn.
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
        """Sync files, then the directories that name them.  Raises: LogDirFailed."""
        for file in self._log_files:
            file.sync()
        for path in (*self._paths, *self._directories):
            self._files.sync_path(path)

    def release(self) -> None:
        """Give the descriptors back; on the loop, also when `run` failed.  Twice is fine."""
        while self._log_files:
            self._log_files.pop().unref()


class CreatePlan:
    """Make one empty partition; until `DataDir.created` nobody else knows its log."""

    __slots__ = ("_create", "_files", "directory", "error", "log")

    def __init__(self, files: FileSystem, directory: str, create: Callable[[], "Log"]) -> None:
        self._files = files
        self._create = create
        self.directory = directory
        self.log: Log | None = None
        self.error: LogDirFailed | None = None

    def run(self) -> None:
        """Make the directory and its files, safe on disk; what goes wrong is kept in `error`."""
        create_together((self,))

    def make(self) -> None:
        """Make it, unsynced."""
        try:
            self.log = self._create()
        except LogDirFailed as error:
            self._fail(error)

    def sync(self, path: str) -> None:
        """Make sure of a file or directory, if all went well up to now."""
        if self.error is None:
            try:
                self._files.sync_path(path)
            except LogDirFailed as error:
                self._fail(error)

    def _fail(self, error: LogDirFailed) -> None:
        """Half a partition must not stay behind: it may be made in another directory next."""
        self.log, self.error = None, error
        try:
            self._files.remove_tree(self.directory)
        except LogDirFailed as worse:
            self.error = worse


def create_together(plans: Sequence[CreatePlan]) -> None:
    """Run plans of one data directory or several, of many partitions, in any thread.

    What is safe then is whose log it is, and the name of its first segment: else a power cut might
    leave records that any topic of the name could take for its own, or only later segments. Files
    are synced before directories, so that a journal has to be written less often.
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
    """Unlink a partition's directory, which was renamed out of the way already."""

    __slots__ = ("_files", "directory")

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self.directory = directory

    def run(self) -> None:
        """Remove the directory and its files.  Raises: LogDirFailed."""
        self._files.remove_tree(self.directory)


class CheckpointPlan:
    """Write checkpoint files; only one plan of a directory may run at a time."""

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
