"""A world for the embedded store without threads, disks or chance."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

from odradek.broker.coordination.journal import Saved
from odradek.broker.coordination.tree import Node
from odradek.broker.jobs import InlineJobs
from odradek.broker.runtime import Clock, Offload, Runtime
from odradek.storage.files import RealFileSystem

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class FakeClock(Clock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms


async def inline_offload(function: Callable[[*Ts], T], /, *args: *Ts) -> T:
    """Run the function here and now, but answer no earlier than the loop's next turn."""
    await asyncio.sleep(0)
    return function(*args)


def fake_runtime(offload: Offload = inline_offload) -> Runtime:
    files = RealFileSystem()
    return Runtime(
        clock=FakeClock(),
        offload=offload,
        random=random.Random(1),
        files=files,
        jobs=InlineJobs(files, offload),
    )


class MemoryJournal:
    """Remembers what was committed, for the next store that opens it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.zxid = 0
        self.commit_count = 0
        self.error: Exception | None = None
        self._open = False

    def open(self) -> Saved:
        self._open = True
        return Saved(list(self.nodes.items()), self.zxid)

    def commit(self, zxid: int, changes: Sequence[tuple[str, Node | None]]) -> None:
        if self.error is not None:
            raise self.error
        assert self._open
        assert zxid >= self.zxid
        self.zxid = zxid
        self.commit_count += 1
        for path, node in changes:
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node

    def close(self) -> None:
        self._open = False


class GatedOffload:
    """Holds every call back until `release`, to see what happens before a commit is done."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.started_count = 0

    def hold(self) -> None:
        self.gate.clear()

    def release(self) -> None:
        self.gate.set()

    async def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> T:
        self.started_count += 1
        await self.gate.wait()
        return function(*args)
