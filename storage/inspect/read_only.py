"""A file system for commands that must not write."""

import fcntl
import os
from typing import NoReturn

from ..errors import DataDirError
from ..files import FileLock, RealFileSystem, open_regular
from ..log.log_file import Bytes, LogFile, guarded


class ReadOnlyFileSystem(RealFileSystem):
    """Opens files for reading only; an attempt to change one is a bug of the caller."""

    def open_descriptor(self, file: LogFile) -> int:
        """Open a file for `LogFile`, for reading."""
        with guarded(file.path):
            descriptor = open_regular(file.path, os.O_RDONLY)
        self._open[file] = None
        return descriptor

    def lock(self, path: str) -> FileLock:
        """Take a shared lock, which keeps out brokers but not other readers.

        Without a lock file nothing is locked: no broker has used the directory.
        Raises: DataDirError (a broker holds the lock, or the file can't be opened).
        """
        try:
            descriptor = open_regular(path, os.O_RDONLY)
        except FileNotFoundError:
            return FileLock(-1)
        except OSError as error:
            raise DataDirError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise DataDirError(
                f"a broker is running on {os.path.dirname(path)} (its lock is held)"
            ) from error
        return FileLock(descriptor)

    def create(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def make_directory(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def write_bytes(self, path: str, data: Bytes) -> None:
        """Refused."""
        _refuse(path)

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Refused."""
        _refuse(path)

    def rename(self, path: str, new_path: str) -> None:
        """Refused."""
        _refuse(path)

    def unlink(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def sync_path(self, path: str) -> None:
        """Refused."""
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise AssertionError(f"{path}: a read-only file system was asked for a change")
