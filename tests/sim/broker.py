"""The whole broker as a simulated process: started, stopped, killed, started again on its files.

The disk is the machine's.  A kill leaves on it what was written, as `kill -9` does: the directory
is copied at that instant, the descriptors and the SQLite connection that the operating system would
close are closed on the old one, and the copy takes its place.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.config import load_config
from odradek.broker.server import Broker
from odradek.storage.files import FileLock, RealFileSystem
from odradek.storage.log.log_file import LogFile

from .loop import SimLoop
from .node import CURRENT_NODE, Node
from .runtime import SimClock, sim_runtime

HOST = "127.0.0.1"


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
        """A descriptor was closed."""
        super().forget(file)
        self._descriptors.pop(file, None)

    def lock(self, path: str) -> FileLock:
        """Take a lock and note it."""
        self._locks.append(super().lock(path))
        return self._locks[-1]

    def fsync(self, descriptor: int) -> None:
        """Nothing: what is simulated is the end of a process, not of the power."""

    def close_all(self) -> None:
        """What the end of a process does.  Nothing that used the files may run again."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        for lock in self._locks:
            lock.release()


class SimConnection(sqlite3.Connection):
    """SQLite without fsync: what is simulated is the end of a process, not of the power."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run a statement."""
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().execute(sql, parameters)


@contextlib.contextmanager
def sim_sqlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While this lasts, a node's SQLite connections are closed when the node is killed."""
    connect = sqlite3.connect

    def connect_on_node(path: str, **options: Any) -> sqlite3.Connection:
        connection = connect(path, **options, factory=SimConnection)
        CURRENT_NODE.get().at_crash(connection.close)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_on_node)
        yield


class SimBroker:
    """One broker that may be started again after `stop` or `crash`, at the same address."""

    def __init__(
        self, loop: SimLoop, data_dir: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.loop = loop
        self.data_dir = data_dir
        self.clock = SimClock(loop)
        self.settings = dict(settings or {})
        self.port = 0
        self._node: Node | None = None
        self._broker: Broker | None = None

    async def start(self) -> None:
        """Start the process and return when it serves."""
        node = self._node = self.loop.node("broker")
        files = SimFiles()
        node.at_crash(files.close_all)
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data_dir),
            "odradek.loop.stall.check.ms": "0",  # a simulated loop is never late
            **self.settings,
        }
        self._broker = Broker(
            load_config(overrides=settings),
            sim_runtime(self.loop, node, self.clock, files),
            portable=True,
        )
        await node.run(self._broker.start())
        self.port = self._broker.port

    async def stop(self) -> None:
        """Stop the process in good order."""
        assert self._node is not None
        assert self._broker is not None
        await self._node.run(self._broker.stop())
        self.loop.retire(self._node)

    def crash(self) -> None:
        """Kill the process; on disk is what had been written."""
        assert self._node is not None
        image = self.data_dir.with_name(f"{self.data_dir.name}.image")
        shutil.copytree(self.data_dir, image)
        self.loop.crash(self._node)
        shutil.rmtree(self.data_dir)
        image.rename(self.data_dir)

    def buffered_bytes(self) -> int:
        """What waits in the broker's memory for clients to read."""
        assert self._node is not None
        return sum(transport.get_write_buffer_size() for transport in self._node.transports)
