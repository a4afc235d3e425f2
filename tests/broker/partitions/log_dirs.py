"""A broker with three log directories, and what tests of them ask."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from odradek.broker.core.log_uses import Use
from odradek.broker.runtime import ThreadOffload
from odradek.protocol.errors import ErrorCode
from odradek.storage.log.log import Log
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, error_codes, records_in

from ..group_requests import commit, fetch_offsets
from ..requests import alter_log_dirs
from ..running import RunningBroker, WatchedFiles, running

GROUPS: Final = "__consumer_offsets"
NAMES: Final = ("a", "b", "c")
AT_ONCE: Final = {"log.segment.delete.delay.ms": "0", "log.segment.bytes": "20000"}
BROKER: Final = 4
SET, DELETE = 0, 1
STORAGE_ERROR: Final = ErrorCode.KAFKA_STORAGE_ERROR


def paths_of(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in NAMES]


@contextlib.asynccontextmanager
async def broker_at(
    tmp_path: Path,
    files: WatchedFiles | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[RunningBroker]:
    settings = {"log.dirs": ",".join(paths_of(tmp_path)), **AT_ONCE, **(settings or {})}
    async with running(tmp_path, settings, files=files) as broker:
        yield broker


def log_of(broker: RunningBroker, topic: str = "t", partition: int = 0) -> Log:
    return broker.node.replicas.partitions[topic, partition].log


def dir_of(broker: RunningBroker, topic: str = "t", partition: int = 0) -> str:
    return Path(log_of(broker, topic, partition).directory).parent.name


def others(broker: RunningBroker, topic: str = "t") -> list[str]:
    """The paths of the directories where it is not."""
    paths = broker.node.replicas.log_dirs.paths
    return [path for path in paths if Path(path).name != dir_of(broker, topic)]


async def alter(client: Client, path: str, *partitions: tuple[str, int]) -> list[int]:
    answer = await client.ask(alter_log_dirs(path, *(partitions or [("t", 0)])), 2)
    return [p.error_code for topic in answer.results for p in topic.partitions]


async def values(client: Client, topic: str = "t") -> list[bytes]:
    found: list[bytes] = []
    while True:
        data = await client.fetch(topic, len(found))
        assert data.error_code == 0
        read = [value for offset, value in records_in(data.records) if offset >= len(found)]
        if not read:
            return found
        found += read


def directories(tmp_path: Path) -> dict[str, list[str]]:
    return {n: sorted(p.name for p in (tmp_path / n).iterdir() if p.is_dir()) for n in NAMES}


async def committed(client: Client, offset: int) -> None:
    answer = await client.ask(commit("g", "t", {0: offset}), 8)
    assert error_codes(answer.topics[0].partitions) == [0]
    assert await offset_of(client) == offset


async def offset_of(client: Client) -> int:
    answer = await client.ask(fetch_offsets("g", "t", 0), 7)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


class HeldOffload(ThreadOffload):
    """Another offload, but for reads of spans, which wait."""

    def __init__(self, offload: ThreadOffload, let_go: asyncio.Event, held: str) -> None:
        super().__init__("held", threads_max=1)
        self._offload, self._let_go, self._held = offload, let_go, held
        self.is_holding = False

    async def __call__(  # type: ignore[override]
        self, function: Callable[..., Any], /, *args: Any
    ) -> Any:
        if getattr(function, "__qualname__", "") == self._held:
            self.is_holding = True
            await self._let_go.wait()
        return await self._offload(function, *args)

    def close(self) -> None:
        self._offload.close()


def hold_moves(broker: RunningBroker, held: str = "Span.read") -> asyncio.Event:
    """Moves stop at their next slice, or what else they have done in threads, until it is set."""
    let_go = asyncio.Event()
    offload = broker.node.runtime.offload
    assert isinstance(offload, ThreadOffload)
    broker.node.runtime.offload = HeldOffload(offload, let_go, held)  # type: ignore[assignment]
    return let_go


async def begun(
    broker: RunningBroker, client: Client, count: int = 30, *, held: str = "Span.read"
) -> asyncio.Event:
    """A topic t whose move has begun and waits."""
    await client.create_topic("t")
    for number in range(count):
        await client.append("t", batch_of(b"%05d" % number * 2000))
    let_go = hold_moves(broker, held)
    assert await alter(client, others(broker)[0]) == [0]
    await until(lambda: broker.node.replicas.uses.having(Use.MOVES))
    return let_go


async def held_at(broker: RunningBroker, client: Client, held: str) -> asyncio.Event:
    """The same, but it goes on until a thread is about to do this."""
    let_go = await begun(broker, client, held=held)
    offload = broker.node.runtime.offload
    assert isinstance(offload, HeldOffload)
    await until(lambda: offload.is_holding)
    return let_go


async def held_at_the_mark(broker: RunningBroker, client: Client) -> asyncio.Event:
    """The same: its copy has everything and is about to be marked so."""
    return await held_at(broker, client, "Copy.mark")
