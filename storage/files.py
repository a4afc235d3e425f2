"""Every touch of the disk: the one file under storage/ that may fsync.

`FileSystem` is what the room is given; `RealFileSystem` is the machine's own.  A simulator or a
fault test derives from it (and from `LogFile`) and overrides single calls.

Descriptors are opened at first use and given back when too many are open: a thousand idle
partitions hold none.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from typing import Final, NamedTuple, Protocol

from .errors import DataDirError, LogDirFailed
from .log.log_file import Bytes, LogFile, fail, fail_sync, guarded

OPEN_FILES_MAX: Final = 4096
WHOLE_BYTES_MAX: Final = 256 << 20  # of a file that is read as a whole: none is near that


class FileInfo(NamedTuple):
    """One entry of a directory."""

    name: str
    is_directory: bool
    size_bytes: int
    is_special: bool = False
    """A pipe, socket or device, or a link that leads nowhere."""


class FileLock:
    """A lock on a file, held until `release` or the end of the process."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FileSystem(Protocol):
    """What storage needs of a disk.  Every method may raise LogDirFailed or DiskFull."""

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        """A handle on an existing file; nothing is opened before its first use."""
        ...

    def create(self, path: str) -> None:
        """Make an empty file; one that exists is emptied."""
        ...

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries of a directory, in no order."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; one that exists is fine."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was written last, by the wall clock."""
        ...

    def read_bytes(self, path: str) -> bytes | None:
        """A whole file, or None if there is none."""
        ...

    def write_bytes(self, path: str, data: Bytes) -> None:
        """Write a whole file in place, unsynced: for data that can be derived again."""
        ...

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Replace a file as a whole: `.tmp`, fsync, rename, fsync of the directory."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory, replacing a file of that name."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and what is in it; gone already is fine."""
        ...

    def sync_path(self, path: str) -> None:
        """fsync a file or a directory by name; gone already is fine."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Size of the file system and what is left of it, in bytes.  Raises: LogDirFailed."""
        ...

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock.  Raises: DataDirError (held by somebody else), LogDirFailed."""
        ...


class RealFileSystem:
    """The machine's own disk, by plain system calls."""

    def __init__(self, *, open_files_max: int = OPEN_FILES_MAX) -> None:
        self._open_files_max = open_files_max
        self._open: dict[LogFile, None] = {}

    # -- log files and their descriptors

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        """A handle on an existing file; nothing is opened before its first use."""
        return LogFile(self, path, size_bytes)

    def open_descriptor(self, file: LogFile) -> int:
        """Open a file for `LogFile`; first make room if too many are open."""
        if len(self._open) >= self._open_files_max:
            self._make_room()
        with guarded(file.path):
            descriptor = open_regular(file.path, os.O_RDWR)
        self._open[file] = None
        return descriptor

    def _make_room(self) -> None:
        """Second chance: the longest open file that was not used since the last look goes."""
        for file in list(self._open):
            if file.referenced or file.recently_used:
                file.recently_used = False
                self._open[file] = self._open.pop(file)
                continue
            file.rest()
            return
        # All were in use: the next of them without a reference goes; with none, the limit gives.
        for file in list(self._open):
            if not file.referenced:
                file.rest()
                return

    def forget(self, file: LogFile) -> None:
        """A descriptor was closed."""
        self._open.pop(file, None)

    def fsync(self, descriptor: int) -> None:
        """The one fsync.  Raises: OSError."""
        os.fsync(descriptor)

    # -- whole files and directories

    def create(self, path: str) -> None:
        """Make an empty file; one that exists is emptied."""
        with guarded(path):
            os.close(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries of a directory, in no order."""
        infos = []
        with guarded(path), os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # just unlinked by another thread
                    infos.append(_info_of(entry))
        return infos

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; one that exists is fine."""
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        except FileNotFoundError:
            with guarded(path):
                os.makedirs(path, exist_ok=True)
        except OSError as error:
            fail(path, error)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""
        return os.path.exists(path)

    def modified_ms(self, path: str) -> int:
        """When a file was written last, by the wall clock."""
        with guarded(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def read_bytes(self, path: str) -> bytes | None:
        """A whole file, or None if there is none."""
        try:
            descriptor = open_regular(path, os.O_RDONLY)
        except FileNotFoundError as error:
            if os.path.islink(path):  # to a disk that is not mounted, maybe
                fail(path, error)
            return None
        except OSError as error:
            fail(path, error)
        try:
            with guarded(path):
                size_bytes = os.fstat(descriptor).st_size
                if size_bytes > WHOLE_BYTES_MAX:
                    raise LogDirFailed(f"{path}: {size_bytes} bytes are too many for it", path)
                return os.read(descriptor, size_bytes)
        finally:
            os.close(descriptor)

    def write_bytes(self, path: str, data: Bytes) -> None:
        """Write a whole file in place, unsynced: for data that can be derived again."""
        self._write(path, data, sync=False)

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Replace a file as a whole: `.tmp`, fsync, rename, fsync of the directory."""
        temporary = path + ".tmp"
        self._write(temporary, data, sync=sync)
        self.rename(temporary, path)
        if sync:
            self.sync_path(os.path.dirname(path))

    def _write(self, path: str, data: Bytes, *, sync: bool) -> None:
        with guarded(path):
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                if sync:
                    try:
                        self.fsync(descriptor)
                    except OSError as error:
                        fail_sync(path, error)
            finally:
                os.close(descriptor)

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory, replacing a file of that name."""
        with guarded(path):
            os.replace(path, new_path)

    def unlink(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""
        with guarded(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and what is in it; gone already is fine."""
        with guarded(path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_path(self, path: str) -> None:
        """fsync a file or a directory by name; gone already is fine."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            fail(path, error)
        try:
            self.fsync(descriptor)
        except OSError as error:
            fail_sync(path, error)
        finally:
            os.close(descriptor)

    def space(self, path: str) -> tuple[int, int]:
        """Size of the file system and what is left of it, in bytes."""
        with guarded(path):
            state = os.statvfs(path)
        return state.f_frsize * state.f_blocks, state.f_frsize * state.f_bavail

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock, seen by other brokers of this kind and by Apache Kafka.

        `flock` also keeps out a second broker of this process; Java's FileLock is a record lock
        (`lockf`), which only keeps out other processes.
        """
        with guarded(path):
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DataDirError(
                    f"the data directory {os.path.dirname(path)} is locked by another broker"
                ) from error
            fail(path, error)
        return FileLock(descriptor)


def open_regular(path: str, flags: int) -> int:
    """Open a file, and nothing that would block (a pipe) or never end (a device).

    Raises: OSError.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if stat.S_ISDIR(mode) else "Not a regular file")
    return descriptor


def _info_of(entry: os.DirEntry[str]) -> FileInfo:
    """Raises: FileNotFoundError (it is gone), OSError."""
    try:
        state = entry.stat()
    except OSError:
        if entry.is_symlink():
            return FileInfo(entry.name, is_directory=False, size_bytes=0, is_special=True)
        raise
    is_directory = stat.S_ISDIR(state.st_mode)
    size_bytes = 0 if is_directory else state.st_size
    is_special = not (is_directory or stat.S_ISREG(state.st_mode))
    return FileInfo(entry.name, is_directory, size_bytes, is_special)
