"""A broker's disks in memory, with what becomes of them when the power goes.

Each file knows what was done to it since its last fsync, each directory too. When the machine
crashes every such step on a file may have reached the disk or not, on its own, and a write may be
torn at any byte or leave zeros; of the changes of a directory the last ones may be undone, as in a
journal. (tests/storage/crash lets any of them be undone: a log that begins later than it did is
not mended by replication.) When only the process is killed everything stays, up to a write that it
was in the middle of. A disk that has failed answers nothing.
"""

import contextlib
import errno
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from odradek.storage.errors import LogDirFailed
from odradek.storage.files import FileInfo, FileLock, RealFileSystem
from odradek.storage.log.log_file import Bytes, LogFile
from odradek.storage.log.staging import Staged, StagedBatch

from .world import Killed

SPACE: Final = 1 << 40, 1 << 40


class File:
    """An inode."""

    __slots__ = ("content", "durable", "pending")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.pending: list[int | tuple[int, bytes]] = []
        """Since the last fsync: sizes that it was cut to, and what was written where."""

    def write(self, position: int, data: bytes) -> None:
        """As pwrite."""
        content, end = self.content, position + len(data)
        if position > len(content):
            content += bytes(position - len(content))
        content[position:end] = data
        self.pending.append((position, data))

    def cut(self, size_bytes: int) -> None:
        """As ftruncate."""
        content = self.content
        if size_bytes > len(content):
            content += bytes(size_bytes - len(content))
        del content[size_bytes:]
        self.pending.append(size_bytes)

    def sync(self) -> None:
        """All that was done is safe."""
        self.durable = bytes(self.content)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        """What was not synced is kept, lost or torn."""
        if self.pending:
            survivor = File()
            survivor.content += self.durable
            for step in self.pending:
                for what in _mangled(step, chance):
                    if isinstance(what, int):
                        survivor.cut(what)
                    else:
                        survivor.write(*what)
            self.content = survivor.content
            self.sync()


def _mangled(
    step: int | tuple[int, bytes], chance: random.Random
) -> Iterator[int | tuple[int, bytes]]:
    how = chance.randrange(4)
    if how == 0:
        return
    if how > 1 and not isinstance(step, int):
        position, data = step
        size_bytes = chance.randrange(len(data) + 1)
        rest = bytes(len(data) - size_bytes) if how == 3 else b""
        step = position, data[:size_bytes] + rest
    yield step


class Directory:
    """Names of files and directories; `pending` are changes, each of which is done as a whole."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.pending: list[dict[str, Inode | None]] = []

    def change(self, change: "dict[str, Inode | None]") -> None:
        """Names that are given to something, or to nothing any more."""
        _apply(self.entries, change)
        self.pending.append(change)

    def sync(self) -> None:
        """All names are safe, not what they name."""
        self.durable = dict(self.entries)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Changes that were not synced are kept or lost; and so with all that is named here."""
        if self.pending:
            entries = self.durable
            for change in self.pending[: chance.randrange(len(self.pending) + 1)]:
                _apply(entries, change)
            self.entries = entries
            self.sync()
        for _, inode in sorted(self.entries.items()):
            inode.lose_power(chance)


Inode = File | Directory


def _apply(entries: dict[str, Inode], change: dict[str, Inode | None]) -> None:
    for name, inode in change.items():
        if inode is None:
            entries.pop(name, None)
        else:
            entries[name] = inode


class MemoryFiles:
    """The file system of one broker: a directory for each of its disks."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.failed: set[str] = set()
        """Paths of disks that answer nothing."""
        self.fuse: Callable[[], Killed | None] | None = None
        """Asked before each change; the process may be killed in the middle of it."""
        self.lives = 0
        """So many processes have died: what one of them has begun does not go on."""
        self._directories = {path: Directory() for path in paths}

    # The faults.

    def lose_power(self, chance: random.Random, *, paths: tuple[str, ...] | None = None) -> None:
        """The machine (or just these disks) loses what was not synced."""
        for path in paths or self.paths:
            root = self._directories[path]
            root.lose_power(chance)
            for known in [p for p in self._directories if p.startswith(f"{path}/")]:
                del self._directories[known]
            self._know(path, root)

    def _know(self, path: str, directory: Directory) -> None:
        self._directories[path] = directory
        for name, inode in directory.entries.items():
            if isinstance(inode, Directory):
                self._know(f"{path}/{name}", inode)

    def raw_log(self, path: str) -> bytes | None:
        """All bytes of the segments in a directory, failed or not; None if there is none."""
        directory = self._directories.get(path)
        if directory is None:
            return None
        entries = directory.entries
        logs = [name for name in entries if name.endswith(".log")]
        if len(logs) == 1:
            return bytes(cast(File, entries[logs[0]]).content)
        return b"".join(cast(File, entries[name]).content for name in sorted(logs))

    def raw_file(self, path: str) -> bytes | None:
        """A file as it is, failed or not."""
        directory, name = self._place(path)
        found = None if directory is None else directory.entries.get(name)
        return bytes(found.content) if isinstance(found, File) else None

    def directory_names(self, path: str) -> list[str]:
        """Directories in a directory, failed or not."""
        entries = self._directories[path].entries
        return [name for name, inode in entries.items() if isinstance(inode, Directory)]

    def drop(self, path: str) -> None:
        """A directory is taken away for good, as by an operator."""
        parent, name = self._place(path)
        if parent is not None and name in parent.entries:
            self._unlinked(path)
            parent.sync()

    def before(self, path: str, *, changes: bool = True) -> Killed | None:
        """A call comes; the process may have to die in it.  Raises: LogDirFailed."""
        if self.failed:
            for disk in self.failed:
                if path.startswith(disk):
                    raise LogDirFailed(f"{path}: Input/output error", path)
        killed = self.fuse() if changes and self.fuse is not None else None
        if killed is not None:
            self.lives += 1
        return killed

    def _place(self, path: str) -> tuple[Directory | None, str]:
        parent, _, name = path.rpartition("/")
        return self._directories.get(parent), name

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, name = self._place(path)
        if directory is None:
            raise LogDirFailed(f"{path}: No such file or directory", path)
        return directory, name

    def _begin(self, path: str) -> None:
        """Before a change that is done as a whole or not at all."""
        killed = self.before(path)
        if killed is not None:
            raise killed

    # As `FileSystem`.

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        return MemoryLogFile(self, path, size_bytes)

    def file(self, path: str) -> File:
        """What is open under this path.  Raises: LogDirFailed."""
        self.before(path, changes=False)
        directory, name = self._parent(path)
        found = directory.entries.get(name)
        if not isinstance(found, File):
            raise LogDirFailed(f"{path}: No such file", path)
        return found

    def create(self, path: str) -> None:
        self._begin(path)
        directory, name = self._parent(path)
        found = directory.entries.get(name)
        if isinstance(found, File):
            found.cut(0)
        else:
            directory.change({name: File()})

    def list_names(self, path: str) -> list[str]:
        return [info.name for info in self.list_directory(path)]

    def list_directory(self, path: str) -> list[FileInfo]:
        self.before(path, changes=False)
        directory = self._directories.get(path)
        if directory is None:
            raise LogDirFailed(f"{path}: No such directory", path)
        return [
            FileInfo(name, is_directory=False, size_bytes=len(inode.content))
            if isinstance(inode, File)
            else FileInfo(name, is_directory=True, size_bytes=0)
            for name, inode in directory.entries.items()
        ]

    def make_directory(self, path: str) -> None:
        self._begin(path)
        if path not in self._directories:
            parent, name = self._parent(path)
            directory = self._directories[path] = Directory()
            parent.change({name: directory})

    def exists(self, path: str) -> bool:
        directory, name = self._place(path)
        return directory is not None and name in directory.entries

    def modified_ms(self, path: str) -> int:
        return 0

    def read_bytes(self, path: str) -> bytes | None:
        self.before(path, changes=False)
        directory, name = self._place(path)
        found = None if directory is None else directory.entries.get(name)
        return bytes(found.content) if isinstance(found, File) else None

    def write_bytes(self, path: str, data: Bytes) -> None:
        killed = self.before(path)
        directory, name = self._parent(path)
        found = directory.entries.get(name)
        if not isinstance(found, File):
            found = File()
            directory.change({name: found})
        elif found.content:
            found.cut(0)
        found.write(0, killed.part(data) if killed else bytes(data))
        if killed is not None:
            raise killed

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        self.write_bytes(temporary, data)
        directory, name = self._parent(temporary)
        if sync:
            cast(File, directory.entries[name]).sync()
        self.rename(temporary, path)
        if sync:
            directory.sync()

    def rename(self, path: str, new_path: str) -> None:
        self._begin(path)
        directory, name = self._parent(path)
        target, new_name = self._parent(new_path)
        assert directory is target, "a rename across directories is not modelled"
        inode = directory.entries.get(name)
        if inode is None:
            raise LogDirFailed(f"{path}: No such file or directory", path)
        directory.change({name: None, new_name: inode})
        if isinstance(inode, Directory):
            self._forget(path)
            self._know(new_path, inode)

    def unlink(self, path: str) -> None:
        self._begin(path)
        self._unlinked(path)

    def _unlinked(self, path: str) -> None:
        directory, name = self._place(path)
        if directory is not None and name in directory.entries:
            directory.change({name: None})
            self._forget(path)

    def _forget(self, path: str) -> None:
        if path in self._directories:
            for known in [p for p in self._directories if p.startswith(f"{path}/")]:
                del self._directories[known]
            del self._directories[path]

    def remove_tree(self, path: str) -> None:
        for info in self.list_directory(path) if path in self._directories else ():
            self.unlink(f"{path}/{info.name}")
        self.unlink(path)

    def sync_path(self, path: str) -> None:
        self.before(path, changes=False)
        directory, name = self._place(path)
        found = self._directories.get(path) or (directory and directory.entries.get(name))
        if found is not None:
            found.sync()

    def space(self, path: str) -> tuple[int, int]:
        return SPACE

    def lock(self, path: str) -> FileLock:
        self.before(path, changes=False)
        return FileLock(-1)


class MemoryLogFile(LogFile):
    """A file that is found by its path at first use."""

    __slots__ = ("_file", "disk")

    def __init__(self, disk: MemoryFiles, path: str, size_bytes: int) -> None:
        super().__init__(cast(RealFileSystem, None), path, size_bytes)
        self.disk = disk
        self._file: Any = None

    def descriptor(self) -> int:
        if self._file is None:
            if self._closing:
                raise LogDirFailed(f"{self.path}: used after close", self.path)
            self._file = self.disk.file(self.path)
        return 0

    def _close_descriptor(self) -> None:
        self._file = None

    def duplicate(self) -> int:
        self.descriptor()
        return -1

    def _stage(self, data: memoryview, batches: Sequence[StagedBatch]) -> Staged:
        return _MemoryStaged(self, data, batches)

    def append(self, data: Bytes) -> int:
        position = self.size_bytes
        if self._staged is not None and self._takes_over(data):
            return position
        self.write(position, data)
        self.size_bytes = position + len(data)
        return position

    def write(self, position: int, data: Bytes) -> None:
        killed = self.disk.before(self.path)
        self.descriptor()
        if killed is not None:
            self._file.write(position, killed.part(data))
            raise killed
        self._file.write(position, bytes(data))

    def pread(self, size_bytes: int, position: int) -> bytes:
        self.disk.before(self.path, changes=False)
        self.descriptor()
        return bytes(self._file.content[position : position + size_bytes])

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        data = self.pread(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        self.drop_staged()
        self.cut(size_bytes)
        self.size_bytes = size_bytes

    def cut(self, size_bytes: int) -> None:
        killed = self.disk.before(self.path)
        if killed is not None:
            raise killed
        self.descriptor()
        if len(self._file.content) != size_bytes:
            self._file.cut(size_bytes)

    def sync(self) -> None:
        self.disk.before(self.path, changes=False)
        self.descriptor()
        self._file.sync()


class _MemoryStaged(Staged):
    """What is staged in such a file."""

    __slots__ = ("_lives",)
    _file: MemoryLogFile

    def __init__(
        self, file: MemoryLogFile, data: memoryview, batches: Sequence[StagedBatch]
    ) -> None:
        super().__init__(file, data, batches)
        self._lives = file.disk.lives

    def _write(self, data: memoryview, position: int) -> None:
        with _as_os_error():
            self._file.write(position, data)

    def _end(self, cut_to_bytes: int | None) -> None:
        if cut_to_bytes is not None and self._file.disk.lives == self._lives:
            with _as_os_error():
                self._file.cut(cut_to_bytes)


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except LogDirFailed as failed:
        raise OSError(errno.EIO, str(failed)) from failed
