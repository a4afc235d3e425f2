"""The one way in which coroutines of tests wait; everything else goes on meanwhile."""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, ParamSpec

from .waiting import What, not_yet

TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 0.001
TURNS: Final = 10
P = ParamSpec("P")


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run each call of a test in a loop of its own, without a deadline: its clock may jump."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(
    look: Callable[[], object | Awaitable[object]],
    what: What = None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Poll until `look()`, or what it is awaited for, is true.  Raises: NotYet, and what it raises.

    The clock is the loop's.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while True:
        found = look()
        if await found if inspect.isawaitable(found) else found:
            return
        if loop.time() > deadline_s:
            raise not_yet(look, what, timeout_s)
        await asyncio.sleep(PAUSE_S)


async def turns(count: int = 100) -> None:
    """Let everything run that is ready, and take what comes from sockets of this process.

    That is for tests in which nothing more is to happen.  What threads do is not waited for.
    """
    for _ in range(count):
        await asyncio.sleep(0)


async def pass_over(seconds: float) -> None:
    """Let the loop's clock jump: what is due within so many seconds is done when this returns.

    That is for tests in which nothing is to happen: they need not wait for it.
    """
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + seconds  # type: ignore[method-assign] # until it is closed
    await turns(TURNS)  # a timer wakes a task, which wakes another


@asynccontextmanager
async def in_background(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run what goes on forever; at the end it must still do so, and is cancelled."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
