"""A disk that remembers what was done to it, and what may be left of it after a power cut.

Every call of the storage layer's file-system object is noted as an operation on an inode. What was
not synced when the power goes may be on the disk or not, each operation by itself: data may be
missing, torn or zeros, a later write may have survived an earlier one, and of the changes of a
directory any may be missing. Only an fsync of that very file or directory makes sure.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from odradek.storage.files import RealFileSystem
from odradek.storage.log.log_file import Bytes, LogFile
from odradek.storage.log.staging import Staged, StagedBatch

ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at a position of a file."""

    inode: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file is cut, or made longer with zeros."""

    inode: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Link:
    """A directory gets an entry (of a new file or directory, or by a rename)."""

    inode: int
    name: str
    target: int
    is_directory: bool
    old_name: str | None = None
    """The name in the same directory that goes in the same step."""


@dataclass(frozen=True, slots=True)
class Unlink:
    """A directory loses an entry."""

    inode: int
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """fsync of a file or directory."""

    inode: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Not an operation: what the workload knows at this point."""

    what: object


Operation = Write | Truncate | Link | Unlink | Sync | Mark


class RecordingFiles(RealFileSystem):
    """The machine's disk below one directory, and the list of what was done to it."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = str(root)
        self._inodes: dict[str, int] = {self._root: ROOT}
        self._next = 1
        self.operations: list[Operation] = []

    def mark(self, what: object) -> None:
        """Note what the workload knows now."""
        self.operations.append(Mark(what))

    def inode(self, path: str) -> int:
        """The inode of a path."""
        return self._inodes[path]

    def note(self, operation: Operation) -> None:
        """Add one operation."""
        self.operations.append(operation)

    def fsync(self, descriptor: int) -> None:
        """Nothing on the machine's own disk: what counts is the list."""

    def _linked(self, path: str, *, is_directory: bool) -> int:
        inode = self._inodes[path] = self._next
        self._next += 1
        directory, _, name = path.rpartition("/")
        self.note(Link(self._inodes[directory], name, inode, is_directory))
        return inode

    def _opened_empty(self, path: str) -> int:
        inode = self._inodes.get(path)
        if inode is None:
            return self._linked(path, is_directory=False)
        self.note(Truncate(inode, 0))
        return inode

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        return RecordingLogFile(self, path, size_bytes)

    def create(self, path: str) -> None:
        super().create(path)
        self._opened_empty(path)

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        missing = []
        while path not in self._inodes:
            missing.append(path)
            path = path.rpartition("/")[0]
        for directory in reversed(missing):
            self._linked(directory, is_directory=True)

    def _write(self, path: str, data: Bytes, *, sync: bool) -> None:
        super()._write(path, data, sync=sync)
        inode = self._opened_empty(path)
        self.note(Write(inode, 0, bytes(data)))
        if sync:
            self.note(Sync(inode))

    def rename(self, path: str, new_path: str) -> None:
        super().rename(path, new_path)
        directory, _, name = path.rpartition("/")
        new_directory, _, new_name = new_path.rpartition("/")
        assert directory == new_directory, "a rename across directories is not modelled"
        inode = self._inodes.pop(path)
        is_directory = Path(new_path).is_dir()
        for below in [other for other in self._inodes if other.startswith(path + "/")]:
            self._inodes[new_path + below.removeprefix(path)] = self._inodes.pop(below)
        self._inodes[new_path] = inode
        self.note(Link(self._inodes[directory], new_name, inode, is_directory, old_name=name))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._unlinked(path)

    def _unlinked(self, path: str) -> None:
        if self._inodes.pop(path, None) is not None:
            directory, _, name = path.rpartition("/")
            self.note(Unlink(self._inodes[directory], name))

    def remove_tree(self, path: str) -> None:
        super().remove_tree(path)
        below = [other for other in self._inodes if other.startswith(path + "/")]
        for other in sorted(below, reverse=True):
            self._unlinked(other)
        self._unlinked(path)

    def sync_path(self, path: str) -> None:
        super().sync_path(path)
        if path in self._inodes:
            self.note(Sync(self._inodes[path]))


class RecordingLogFile(LogFile):
    """A log file that tells its disk what is done to it."""

    __slots__ = ("_disk", "_inode")

    def __init__(self, disk: RecordingFiles, path: str, size_bytes: int) -> None:
        super().__init__(disk, path, size_bytes)
        self._disk = disk
        self._inode = -1

    def descriptor(self) -> int:
        if self._inode < 0:  # later the path may be another's
            self._inode = self._disk.inode(self.path)
        return super().descriptor()

    def append(self, data: Bytes) -> int:
        self.descriptor()
        position = super().append(data)
        if self._staged is None:  # else the thread has written it
            self.note(Write, position, bytes(data))
        return position

    def _stage(self, data: memoryview, batches: Sequence[StagedBatch]) -> Staged:
        return _RecordingStaged(self, data, batches)

    def note(self, kind: "type[Write | Truncate]", *what: Any) -> None:
        self._disk.note(kind(self._inode, *what))

    def truncate(self, size_bytes: int) -> None:
        super().truncate(size_bytes)
        self._disk.note(Truncate(self._inode, size_bytes))

    def sync(self) -> None:
        super().sync()
        self._disk.note(Sync(self._inode))


class _RecordingStaged(Staged):
    """What is staged in such a file."""

    __slots__ = ()
    _file: RecordingLogFile

    def _write(self, data: memoryview, position: int) -> None:
        super()._write(data, position)
        self._file.note(Write, position, bytes(data))

    def _end(self, cut_to_bytes: int | None) -> None:
        super()._end(cut_to_bytes)
        if cut_to_bytes is not None:
            self._file.note(Truncate, cut_to_bytes)


@dataclass(slots=True)
class _Inode:
    """What is known of a file or directory at the crash."""

    synced: list[Operation] = field(default_factory=list)
    pending: list[Operation] = field(default_factory=list)


Fate = Callable[[Operation, random.Random], Iterator[Operation]]
"""What becomes of one operation that was not synced."""


def kept(operation: Operation, chance: random.Random) -> Iterator[Operation]:
    """The process is killed, the machine goes on."""
    yield operation


def lost(operation: Operation, chance: random.Random) -> Iterator[Operation]:
    """Nothing that was not synced survives."""
    return iter(())


def mangled(operation: Operation, chance: random.Random) -> Iterator[Operation]:
    """Each may survive, or not, or in part."""
    how = chance.randrange(4)
    if how == 0:
        return
    if isinstance(operation, Write) and how > 1:
        data = operation.data
        if how == 2:
            data = data[: chance.randrange(len(data) + 1)]
        else:  # the size came to the disk, (some of) the data did not
            begin = chance.randrange(len(data) + 1)
            data = data[:begin] + bytes(len(data) - begin)
        operation = Write(operation.inode, operation.position, data)
    yield operation


def crash(operations: list[Operation], fate: Fate, chance: random.Random, target: Path) -> None:
    """Write into the empty directory `target` what is left after these operations."""
    inodes: dict[int, _Inode] = {ROOT: _Inode()}
    for operation in operations:
        if isinstance(operation, Mark):
            continue
        state = inodes.setdefault(operation.inode, _Inode())
        if isinstance(operation, Sync):
            state.synced += state.pending
            state.pending = []
        else:
            state.pending.append(operation)
    _materialize(ROOT, inodes, fate, chance, target)


def _materialize(
    inode: int, inodes: dict[int, _Inode], fate: Fate, chance: random.Random, path: Path
) -> None:
    entries: dict[str, Link] = {}
    for operation in _survivors(inodes.get(inode), fate, chance):
        if isinstance(operation, Link):
            if operation.old_name is not None:
                entries.pop(operation.old_name, None)
            entries[operation.name] = operation
        elif isinstance(operation, Unlink):
            entries.pop(operation.name, None)
    for name, link in entries.items():
        if link.is_directory:
            (path / name).mkdir()
            _materialize(link.target, inodes, fate, chance, path / name)
        else:
            (path / name).write_bytes(_content(_survivors(inodes.get(link.target), fate, chance)))


def _survivors(state: _Inode | None, fate: Fate, chance: random.Random) -> Iterator[Operation]:
    if state is not None:
        yield from state.synced
        for operation in state.pending:
            yield from fate(operation, chance)


def _content(operations: Iterator[Operation]) -> bytes:
    content = bytearray()
    for operation in operations:
        if isinstance(operation, Truncate):
            size_bytes = operation.size_bytes
            content = content[:size_bytes] + bytes(max(0, size_bytes - len(content)))
        elif isinstance(operation, Write):
            end = operation.position + len(operation.data)
            content += bytes(max(0, end - len(content)))
            content[operation.position : end] = operation.data
    return bytes(content)
