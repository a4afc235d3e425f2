"""The one way in which coroutines of tests wait; everything else goes on meanwhile."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

from .waiting import What, not_yet

TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 0.001
TURNS: Final = 10


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


async def pass_over(seconds: float) -> None:
    """Let the loop's clock jump: what is due within so many seconds is done when this returns.

    That is for tests in which nothing is to happen: they need not wait for it.
    """
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + seconds  # type: ignore[method-assign] # until it is closed
    for _ in range(TURNS):  # a timer wakes a task, which wakes another
        await asyncio.sleep(0)
