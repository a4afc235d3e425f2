"""The store at the other end of a link that tests slow down.

Answers and events of watches arrive later, in their order. What a cut link does is not done here:
the session of a broker that is cut off is expired by the store (`server.py`, `zookeeper.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ..network.network import Link
from .interface import (
    ANY_VERSION,
    CoordinationError,
    Create,
    Op,
    Result,
    Session,
    Set,
    Stat,
    Store,
    Watch,
    WatchEvent,
)

T = TypeVar("T")
STEP_S: Final = 1e-6
"""Between two things that arrive, so that timers keep their order."""


class DistantStore:
    """A `Store` over a link."""

    def __init__(self, store: Store, link: Link) -> None:
        self._store = store
        self._link = link

    async def open_session(
        self, timeout_ms: int, on_end: Callable[[CoordinationError], None] | None = None
    ) -> Session:
        """See `Store`."""
        session = DistantSession(self._link)

        def end(error: CoordinationError) -> None:
            session.is_ended = True
            if on_end is not None:
                on_end(error)

        await self._link.cross()
        session.near = await self._store.open_session(timeout_ms, end)
        return session

    async def close(self) -> None:
        """See `Store`."""
        await self._store.close()


class DistantSession:
    """A `Session` over a link."""

    near: Session
    """The session at the other end."""

    def __init__(self, link: Link) -> None:
        self.is_ended = False
        self._link = link
        self._arrived_s = 0.0
        """When the last thing has arrived, or will."""

    @property
    def id(self) -> int:
        """See `Session`."""
        return self.near.id

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """See `Session`."""
        creating = self.near.create(path, data, ephemeral=ephemeral, sequential=sequential)
        return await self._answer(creating, len(data))

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """See `Session`."""
        try:
            data, stat = await self.near.get(path, self._late(watch))
        except CoordinationError:
            await self._arrive(0)
            raise
        await self._arrive(len(data))
        return data, stat

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `Session`."""
        return await self._answer(self.near.set(path, data, version), len(data))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `Session`."""
        await self._answer(self.near.delete(path, version))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """See `Session`."""
        return await self._answer(self.near.exists(path, self._late(watch)))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See `Session`."""
        return await self._answer(self.near.children(path, self._late(watch)))

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        """See `Session`."""
        size_bytes = sum(len(op.data) for op in ops if isinstance(op, Create | Set))
        return await self._answer(self.near.multi(ops), size_bytes)

    async def close(self) -> None:
        """See `Session`."""
        await self.near.close()

    def due_s(self, size_bytes: int) -> float:
        """When something arrives that is sent now, by the loop's clock."""
        transit_s = self._link.condition.transit_s(size_bytes)
        now_s = asyncio.get_running_loop().time()
        self._arrived_s = max(now_s + transit_s, self._arrived_s + STEP_S)
        return self._arrived_s

    def deliver(self, watch: Watch, event: WatchEvent) -> None:
        """Call a watch once the event has arrived."""
        loop = asyncio.get_running_loop()
        if self._is_quick:
            watch(event)
        else:
            loop.call_at(self.due_s(0), self._call, watch, event)

    def _call(self, watch: Watch, event: WatchEvent) -> None:
        if not self.is_ended:
            watch(event)

    @property
    def _is_quick(self) -> bool:
        """Whether nothing is on its way, and the next thing arrives at once."""
        return self._link.is_good and asyncio.get_running_loop().time() > self._arrived_s

    def _late(self, watch: Watch | None) -> Watch | None:
        return None if watch is None else _Late(watch, self)

    async def _answer(self, asked: Awaitable[T], size_bytes: int = 0) -> T:
        try:
            answer = await asked
        except CoordinationError:
            await self._arrive(size_bytes)
            raise
        await self._arrive(size_bytes)
        return answer

    async def _arrive(self, size_bytes: int) -> None:
        if not self._is_quick:
            await asyncio.sleep(self.due_s(size_bytes) - asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class _Late:
    """Calls a watch later.  Of equal watches the store keeps only one."""

    watch: Watch
    session: DistantSession

    def __call__(self, event: WatchEvent) -> None:
        self.session.deliver(self.watch, event)
