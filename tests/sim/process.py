"""A simulated process with a directory: it begins, ends, or is killed and begins again.

The disk is the machine's.  A kill leaves on it what was written, as `kill -9` does: the directory
is copied at that instant, the descriptors and the SQLite connection that the operating system would
close are closed on the old one, and the copy takes its place.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from odradek.broker.runtime import Runtime
from odradek.storage.files import FileLock, RealFileSystem
from odradek.storage.log.log_file import LogFile

from .loop import SimLoop
from .node import CURRENT_NODE, Node
from .runtime import SimClock, sim_runtime

HOST = "127.0.0.1"

T = TypeVar("T")


class SimFiles(RealFileSystem):
    """The machine's disk, whose open files can be closed from outside."""

    def __init__(self) -> None:
        super().__init__()
        self._descriptors: dict[LogFile, int] = {}
        self._locks: list[FileLock] = []

    def open_descriptor(self, file: LogFile) -> int:
        """Open a file and note it."""
        self._descriptors[file] = super().open_descriptor(file)
        return self._descriptors[file]

    def forget(self, file: LogFile) -> None:
        """Drop a descriptor that was closed."""
        super().forget(file)
        self._descriptors.pop(file, None)

    def lock(self, path: str) -> FileLock:
        """Take a lock and note it."""
        self._locks.append(super().lock(path))
        return self._locks[-1]

    def fsync(self, descriptor: int) -> None:
        """Do nothing: the simulator ends processes, not the power."""

    def close_all(self) -> None:
        """Close everything, as the end of a process does.  Nothing may use the files after it."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        for lock in self._locks:
            lock.release()


class SimConnection(sqlite3.Connection):
    """SQLite without fsync: the simulator ends processes, not the power."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run a statement."""
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().execute(sql, parameters)


@contextlib.contextmanager
def sim_sqlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Meanwhile a node's SQLite connections are closed when the node is killed."""
    connect = sqlite3.connect

    def connect_on_node(path: str, **options: Any) -> sqlite3.Connection:
        connection = connect(path, **options, factory=SimConnection)
        CURRENT_NODE.get().at_crash(connection.close)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_on_node)
        yield


class SimProcess:
    """One process after the other on the same directory."""

    def __init__(self, loop: SimLoop, name: str, directory: Path) -> None:
        self.loop = loop
        self.directory = directory
        self.clock = SimClock(loop)
        self._name = name
        self.node: Node | None = None
        """The one that runs."""

    def begin(self) -> Runtime:
        """Begin a process; return its runtime."""
        self.node = self.loop.node(self._name)
        files = SimFiles()
        self.node.at_crash(files.close_all)
        return sim_runtime(self.loop, self.node, self.clock, files)

    async def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the process and wait for it.  Raises: NodeCrashed."""
        assert self.node is not None
        return await self.node.run(coroutine)

    def end(self) -> None:
        """Note that the process has ended by itself.  Raises: Leftovers."""
        assert self.node is not None
        self.loop.retire(self.node)

    def crash(self) -> None:
        """Kill the process; on disk is what had been written."""
        assert self.node is not None
        image = self.directory.with_name(f"{self.directory.name}.image")
        shutil.copytree(self.directory, image)
        self.loop.crash(self.node)
        shutil.rmtree(self.directory)
        image.rename(self.directory)
