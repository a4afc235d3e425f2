"""What the contract's tests need of a kind of store, and what they share."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import ParamSpec, Protocol, cast

from odradek.broker.coordination.interface import (
    CoordinationError,
    Session,
    Stat,
    Store,
    WatchEvent,
)
from tests.broker.coordination.asynchronous import asynchronous

TIMEOUT_MS = 10_000
P = ParamSpec("P")


class Stores(Protocol):
    """One kind of store, as the contract's tests need it: empty at first, its root exists."""

    async def open(self) -> Store:
        """The store; the same one in the same test."""
        ...

    async def expire(self, session: Session) -> None:
        """End a session as if its client had been away for too long."""
        ...

    async def restart(self) -> Store:
        """End the store, and all sessions with it; come back with the same data."""
        ...

    async def close(self) -> None:
        """Clean up."""
        ...


async def open_session(stores: Stores) -> Session:
    return await (await stores.open()).open_session(TIMEOUT_MS)


async def stat_of(session: Session, path: str) -> Stat:
    stat = await session.exists(path)
    assert stat is not None
    return stat


class Seen:
    """A watch that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self._more = asyncio.Event()

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)
        self._more.set()

    async def wait(self, count: int) -> None:
        while len(self.events) < count:
            self._more.clear()
            await self._more.wait()


async def settle(session: Session) -> None:
    """Whatever the store has to tell this session about the past is told now."""
    await session.create("/settle-", sequential=True)


def on_stores(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """A test with a fixture `stores` that is a coroutine; the stores are closed after it.

    Stores that disturb what runs on them may excuse an error (`is_excused`): the test runs again.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        stores = cast(Stores, kwargs["stores"])  # pytest gives fixtures by name
        is_excused = getattr(stores, "is_excused", None)
        while True:
            try:
                return run_and_close(stores, test(*args, **kwargs))
            except (CoordinationError, AssertionError) as error:
                if is_excused is None or not is_excused(error):
                    raise

    return run


@asynchronous
async def run_and_close(stores: Stores, test: Coroutine[object, object, None]) -> None:
    try:
        await test
    finally:
        await stores.close()
