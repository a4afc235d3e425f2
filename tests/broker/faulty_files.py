"""A disk that fails when a test says so."""

import errno
import os
from collections.abc import Callable
from typing import Final

from odradek.storage.log.log_file import Bytes, LogFile, fail

from .running import WatchedFiles

FULL: Final = errno.ENOSPC
BROKEN: Final = errno.EIO


class FaultyLogFile(LogFile):
    """A file of a `FaultyFiles`."""

    __slots__ = ()
    _files: "FaultyFiles"

    def append(self, data: Bytes) -> int:
        self._files.meet("append", self.path)
        return super().append(data)

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._files.meet("pread", self.path)
        return super().pread(size_bytes, position)

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        self._files.meet("pread", self.path)
        return super().pread_into(buffer, position)

    def descriptor(self) -> int:
        self._files.meet("open", self.path)
        return super().descriptor()

    def sync(self) -> None:
        self._files.meet("sync", self.path)
        super().sync()


class FaultyFiles(WatchedFiles):
    """`faults`: operation -> errno with which it fails from now on, on paths that hold `where`."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, int] = {}
        self.where = ""
        self.before: Callable[[str], None] = lambda operation: None
        """Called, maybe in a thread, before each operation."""

    def meet(self, operation: str, path: str) -> None:
        """Fail if it is to fail.  Raises: DiskFull, LogDirFailed."""
        self.before(operation)
        code = self.faults.get(operation)
        if code is not None and self.where in path:
            fail(path, OSError(code, os.strerror(code)))

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        self.meet("open", path)
        self.log_files.append(FaultyLogFile(self, path, size_bytes))
        return self.log_files[-1]

    def create(self, path: str) -> None:
        self.meet("create", path)
        super().create(path)

    def make_directory(self, path: str) -> None:
        self.meet("mkdir", path)
        super().make_directory(path)

    def rename(self, path: str, new_path: str) -> None:
        self.meet("rename", path)
        super().rename(path, new_path)

    def remove_tree(self, path: str) -> None:
        self.meet("remove", path)
        super().remove_tree(path)

    def sync_path(self, path: str) -> None:
        self.meet("sync", path)
        super().sync_path(path)

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        self.meet("write", path)
        super().write_atomic(path, data, sync=sync)

    def space(self, path: str) -> tuple[int, int]:
        self.meet("space", path)
        return super().space(path)
