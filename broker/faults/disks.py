"""Disks that are full, or broken, when a test says so.

A fault is at a directory, such as one of `log.dirs`, and concerns every file below it. On a full
disk nothing can be written (ENOSPC), as long as that lasts; on a broken one no call succeeds (EIO).
Files that are opened by others, such as the processes that compact logs, notice nothing.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from enum import Enum

from odradek.storage.files import OPEN_FILES_MAX, FileInfo, FileLock, RealFileSystem
from odradek.storage.log.log_file import Bytes, LogFile, fail


class DiskState(Enum):
    """What a disk can do."""

    OK = "ok"
    FULL = "full"
    FAILED = "failed"


class BreakableFiles(RealFileSystem):
    """The real disk, on which directories can be full or broken."""

    def __init__(self, *, open_files_max: int = OPEN_FILES_MAX, syncs: bool = True) -> None:
        super().__init__(open_files_max=open_files_max, syncs=syncs)
        self.states: Mapping[str, DiskState] = {}
        """By absolute path; never changed, only replaced, as threads read it."""

    def set_state(self, directory: str, state: DiskState) -> None:
        """Make a directory full or broken, or heal it."""
        others = {path: fault for path, fault in self.states.items() if path != directory}
        self.states = others if state is DiskState.OK else {**others, directory: state}

    def worst_of(self, directories: Iterable[str]) -> DiskState:
        """The state of the directory that is in the worst one."""
        states = {self._state_at(directory) for directory in directories}
        return max(states, key=list(DiskState).index)

    def heal_all(self) -> None:
        """Heal all directories."""
        self.states = {}

    def check(self, path: str, *, writing: bool = False) -> None:
        """Fail if there is a fault for this use of a path.  Raises: DiskFull, LogDirFailed."""
        if self.states and (error := self.error_at(path, writing=writing)):
            fail(path, error)

    def error_at(self, path: str, *, writing: bool) -> OSError | None:
        """The error of this use of a path, if there is a fault for it."""
        state = self._state_at(path)
        if state is DiskState.OK or (state is DiskState.FULL and not writing):
            return None
        code = errno.ENOSPC if state is DiskState.FULL else errno.EIO
        return OSError(code, os.strerror(code), path)

    def _state_at(self, path: str) -> DiskState:
        for directory, state in self.states.items():
            if f"{path}/".startswith(f"{directory}/"):
                return state
        return DiskState.OK

    # -- what storage calls

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        """A handle to a file; it is opened at its first use."""
        return _BreakableLogFile(self, path, size_bytes)

    def open_descriptor(self, file: LogFile) -> int:
        """Open a file for `LogFile`."""
        self.check(file.path)
        return super().open_descriptor(file)

    def create(self, path: str) -> None:
        """Create an empty file; truncate an existing one."""
        self.check(path, writing=True)
        super().create(path)

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries of a directory, in no particular order."""
        self.check(path)
        return super().list_directory(path)

    def list_names(self, path: str) -> list[str]:
        """Only their names, which takes a quarter of the time."""
        self.check(path)
        return super().list_names(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, unless it exists."""
        self.check(path, writing=not os.path.exists(path))
        super().make_directory(path)

    def modified_ms(self, path: str) -> int:
        """The modification time of a file, by the wall clock."""
        self.check(path)
        return super().modified_ms(path)

    def read_bytes(self, path: str) -> bytes | None:
        """A whole file, or None if there is none."""
        self.check(path)
        return super().read_bytes(path)

    def _write(self, path: str, data: Bytes, *, sync: bool) -> None:
        self.check(path, writing=True)
        super()._write(path, data, sync=sync)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory, replacing an existing file."""
        self.check(path)
        super().rename(path, new_path)

    def unlink(self, path: str) -> None:
        """Remove a file, if it exists."""
        self.check(path)
        super().unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents, if it exists."""
        self.check(path)
        super().remove_tree(path)

    def sync_path(self, path: str) -> None:
        """fsync a file or directory by path, if it exists."""
        self.check(path)
        super().sync_path(path)

    def space(self, path: str) -> tuple[int, int]:
        """Total and available bytes of the file system."""
        self.check(path)
        total_bytes, available_bytes = super().space(path)
        is_full = self._state_at(path) is DiskState.FULL
        return total_bytes, 0 if is_full else available_bytes

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock."""
        self.check(path)
        return super().lock(path)


class _BreakableLogFile(LogFile):
    """A file of `BreakableFiles`."""

    __slots__ = ()
    _files: BreakableFiles

    def append(self, data: Bytes) -> int:
        """Write at the end; return the position."""
        if self._files.states:
            self._files.check(self.path, writing=True)
        return super().append(data)

    def write_all(self, descriptor: int, data: memoryview, position: int) -> None:
        """Write all of `data`, maybe in a thread.  Raises: OSError."""
        if error := self._files.error_at(self.path, writing=True):
            raise error
        super().write_all(descriptor, data, position)

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Read up to `size_bytes`, fewer at the end of the file."""
        if self._files.states:
            self._files.check(self.path)
        return super().pread(size_bytes, position)

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill the buffer up to the end of the file; return the count."""
        if self._files.states:
            self._files.check(self.path)
        return super().pread_into(buffer, position)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to its first `size_bytes`."""
        self._files.check(self.path)
        super().truncate(size_bytes)

    def sync(self) -> None:
        """fsync, maybe in a thread."""
        self._files.check(self.path)
        super().sync()
