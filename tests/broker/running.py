"""A broker in the test's own event loop, that must leave nothing behind when it stops."""

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from odradek.broker.config import load_config
from odradek.broker.coordination.current import CurrentSession
from odradek.broker.faults.disks import BreakableFiles
from odradek.broker.net.connections import Connections
from odradek.broker.net.listener import Listener
from odradek.broker.node import Node
from odradek.broker.runtime import Clock, Runtime
from odradek.broker.server import Broker
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.log.log_file import LogFile
from tests.support.awaiting import until
from tests.support.client import Client

from .coordination.fakes import inline_offload

HOST = "127.0.0.1"
DEADLINE_S = 30


class WatchedFiles(BreakableFiles):
    """The machine's disk without fsync, which the admin API can break.

    It remembers what was opened, and synced by its name.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_files: list[LogFile] = []
        self.synced: list[str] = []

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        self.log_files.append(super().open_log(path, size_bytes))
        return self.log_files[-1]

    def fsync(self, descriptor: int) -> None:
        """Nothing: no test here cuts the power."""

    def sync_path(self, path: str) -> None:
        self.synced.append(path)
        super().sync_path(path)

    @property
    def references(self) -> list[str]:
        """The files that somebody holds."""
        return [file.path for file in self.log_files if file.referenced]


class LeapingClock(Clock):
    """The machine's clocks, all of which a test can move on; no timer notices."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self.moved_ms = 0
        self.ahead_ms = 0
        """How far the times that `MovableClock` moves are ahead."""

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.moved_ms

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.moved_ms + self.ahead_ms

    def timer_ms(self) -> int:
        return self.now_ms() + self.ahead_ms

    def loop_ns(self) -> int:
        return time.perf_counter_ns() + self.moved_ms * 1_000_000


class RunningBroker(Broker):
    """A broker whose parts a test can look at."""

    node: Node
    connections: Connections
    listeners: list[Listener]
    files: WatchedFiles
    clock: LeapingClock

    async def _make_node(self, log_dirs: LogDirs, cluster_id: str, session: CurrentSession) -> Node:
        self.node = await super()._make_node(log_dirs, cluster_id, session)
        self.session = session
        return self.node

    async def _bind(self, node: Node) -> None:
        await super()._bind(node)
        self.listeners = list(self._listeners)

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.clients: list[Client] = []

    async def client(self, **options: Any) -> Client:
        """A new connection, which is closed at the end of the test."""
        self.clients.append(await Client.connect(self.port, **options))
        return self.clients[-1]

    async def peer(self) -> Client:
        """The same of another broker: they share their listener with clients from now on."""
        self.node.local.is_alone = False
        return await self.client()


def make_broker(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    portable: bool = False,
    files: WatchedFiles | None = None,
) -> tuple[RunningBroker, Runtime]:
    """A broker that is not started yet; the caller closes the runtime."""
    overrides = {
        "listeners": f"PLAINTEXT://{HOST}:0",
        "log.dirs": str(directory / "data"),
        **(settings or {}),
    }
    runtime = Runtime.system()
    runtime.files = files or WatchedFiles()
    runtime.clock = clock = LeapingClock(runtime)
    runtime.loop_ns = clock.loop_ns
    runtime.store_offload = inline_offload  # a start commits twenty times
    broker = RunningBroker(load_config(overrides=overrides), runtime, portable=portable)
    broker.files, broker.clock = runtime.files, clock
    return broker, runtime


@contextlib.asynccontextmanager
async def running(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    portable: bool = False,
    files: WatchedFiles | None = None,
) -> AsyncIterator[RunningBroker]:
    """Start a broker; at the end stop it and look for what it forgot."""
    broker, runtime = make_broker(directory, settings, portable=portable, files=files)
    before = asyncio.all_tasks()
    try:
        await broker.start()
        yield broker
        await hang_up(broker.clients)
        await until(lambda: not waiters_of(broker), "waiters are gone")
        await until(lambda: not broker.files.references, "nobody holds files")
        await broker.stop()
        assert len(broker.connections) == 0
        assert broker.connections.budget.used_bytes == 0
        assert not broker.connections.budget.keeps
        await until(lambda: asyncio.all_tasks() <= before, "all tasks have ended")
    finally:
        await hang_up(broker.clients)
        await broker.stop()
        runtime.close()
    assert not broker.files.references


def on_broker(
    settings: Mapping[str, str] | None = None, *, both: bool = True
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Make `async def test(broker, ...)` a test that runs on a broker of each kind of connections.

    Its other arguments are fixtures and parameters as usual.  `both` False: sockets only.
    """

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        named = [name for name in inspect.signature(test).parameters if name != "broker"]
        wanted = dict.fromkeys(("tmp_path", *(("portable",) if both else ()), *named))

        def run(tmp_path: Path, portable: bool = False, **more: Any) -> None:
            given = {"tmp_path": tmp_path, "portable": portable, **more}

            async def main() -> None:
                async with running(tmp_path, settings, portable=portable) as broker:
                    await test(broker, **{name: given[name] for name in named})

            asyncio.run(main())

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__dict__.update(test.__dict__)  # its marks
        kind = inspect.Parameter.KEYWORD_ONLY
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind) for name in wanted]
        )
        return run

    return decorate


async def hang_up(clients: list[Client]) -> None:
    """Close connections, and forget them."""
    while clients:
        await clients.pop().close()


def waiters_of(broker: RunningBroker) -> list[object]:
    """What waits for news of a partition."""
    return [w for p in broker.node.replicas.partitions.values() for w in p.waiters]
