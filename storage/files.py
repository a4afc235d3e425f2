"""All disk access: the only file under storage/ that may fsync.

`FileSystem` is the interface that this package uses; `RealFileSystem` is the real disk.  Simulators
and fault tests derive from it (and from `LogFile`) and override single calls.

Descriptors are opened at first use and closed when too many are open: a thousand idle partitions
need none.
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
WHOLE_BYTES_MAX: Final = 256 << 20  # limit for reading a whole file; no valid file comes close


class FileInfo(NamedTuple):
    """One entry of a directory."""

    name: str
    is_directory: bool
    size_bytes: int
    is_special: bool = False
    """A pipe, socket or device, or a dangling symbolic link."""


class FileLock:
    """A lock on a file, held until `release` or the end of the process."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock.  Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FileSystem(Protocol):
    """What storage needs from a disk.  Methods may raise LogDirFailed or DiskFull."""

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        """A handle to a file; it is opened at its first use."""
        ...

    def create(self, path: str) -> None:
        """Create an empty file; truncate an existing one."""
        ...

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries of a directory, in no particular order."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Only their names, which takes a quarter of the time."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, unless it exists."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory at this path."""
        ...

    def modified_ms(self, path: str) -> int:
        """The modification time of a file, by the wall clock."""
        ...

    def read_bytes(self, path: str) -> bytes | None:
        """A whole file, or None if there is none."""
        ...

    def write_bytes(self, path: str, data: Bytes) -> None:
        """Write a whole file in place, unsynced: for data that can be derived again."""
        ...

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Replace a file atomically: `.tmp`, fsync, rename, fsync of the directory.

        Without `sync` both fsyncs are omitted.
        """
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory, replacing an existing file."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file, if it exists."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents, if it exists."""
        ...

    def sync_path(self, path: str) -> None:
        """fsync a file or directory by path, if it exists."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Total and available bytes of the file system.  Raises: LogDirFailed."""
        ...

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock.  Raises: DataDirError (another broker has it), LogDirFailed."""
        ...


class RealFileSystem:
    """The real disk, by plain system calls."""

    def __init__(self, *, open_files_max: int = OPEN_FILES_MAX, syncs: bool = True) -> None:
        """`syncs` false: fsync does nothing, for data that a power failure may destroy."""
        self.syncs = syncs
        self.open_files_max = open_files_max
        self._open: dict[LogFile, None] = {}

    # -- log files and their descriptors

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        """A handle to a file; it is opened at its first use."""
        return LogFile(self, path, size_bytes)

    def open_descriptor(self, file: LogFile) -> int:
        """Open a file for `LogFile`; close another one first if too many are open."""
        if len(self._open) >= self.open_files_max:
            self._make_room()
        with guarded(file.path):
            descriptor = open_regular(file.path, os.O_RDWR)
        self._open[file] = None
        return descriptor

    def _make_room(self) -> None:
        """Close one file by the second-chance rule: the oldest one not used since the last pass."""
        for file in list(self._open):
            if file.referenced or file.recently_used:
                file.recently_used = False
                self._open[file] = self._open.pop(file)
                continue
            file.rest()
            return
        # All were used: close the oldest without references.  If there is none, exceed the limit.
        for file in list(self._open):
            if not file.referenced:
                file.rest()
                return

    def forget(self, file: LogFile) -> None:
        """Note that a file's descriptor was closed."""
        self._open.pop(file, None)

    def fsync(self, descriptor: int) -> None:
        """fsync a descriptor.  Raises: OSError."""
        if self.syncs:
            os.fsync(descriptor)

    # -- whole files and directories

    def create(self, path: str) -> None:
        """Create an empty file; truncate an existing one."""
        with guarded(path):
            os.close(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries of a directory, in no particular order."""
        infos = []
        with guarded(path), os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # just unlinked by another thread
                    infos.append(_info_of(entry))
        return infos

    def list_names(self, path: str) -> list[str]:
        """Only their names, which takes a quarter of the time."""
        with guarded(path):
            return os.listdir(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, unless it exists."""
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
        """Whether there is a file or directory at this path."""
        return os.path.exists(path)

    def modified_ms(self, path: str) -> int:
        """The modification time of a file, by the wall clock."""
        with guarded(path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def read_bytes(self, path: str) -> bytes | None:
        """A whole file, or None if there is none."""
        try:
            descriptor = open_regular(path, os.O_RDONLY)
        except FileNotFoundError as error:
            if os.path.islink(path):  # perhaps to a disk that is not mounted
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
        """Replace a file atomically: `.tmp`, fsync, rename, fsync of the directory."""
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
        """Rename a file or directory, replacing an existing file."""
        with guarded(path):
            os.replace(path, new_path)

    def unlink(self, path: str) -> None:
        """Remove a file, if it exists."""
        with guarded(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents, if it exists."""
        with guarded(path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_path(self, path: str) -> None:
        """fsync a file or directory by path, if it exists."""
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
        """Total and available bytes of the file system."""
        with guarded(path):
            state = os.statvfs(path)
        return state.f_frsize * state.f_blocks, state.f_frsize * state.f_bavail

    def lock(self, path: str) -> FileLock:
        """Take an exclusive lock that both Odradek and Apache Kafka respect.

        `flock` also keeps out a second broker in this process. Java's FileLock is a record lock
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


class NotRegular(OSError):
    """A file may block whoever opens it (a pipe), or never end (a device)."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "Not a regular file")


def open_regular(path: str, flags: int) -> int:
    """Open a regular file.  Raises: NotRegular, IsADirectoryError, OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise NotRegular
    return descriptor


def read_regular(path: str, size_bytes_max: int) -> bytes:
    """The content of a regular file; of a larger one, one byte more than the limit.

    Raises: NotRegular, IsADirectoryError, OSError.
    """
    with open(open_regular(path, os.O_RDONLY), "rb") as stream:
        return stream.read(size_bytes_max + 1)


def _info_of(entry: os.DirEntry[str]) -> FileInfo:
    """The `FileInfo` of a directory entry.  Raises: FileNotFoundError (it is gone), OSError."""
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
