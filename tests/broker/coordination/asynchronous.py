"""Tests as coroutines, without a plugin."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import ParamSpec

P = ParamSpec("P")
DEADLINE_S = 60


def asynchronous(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run each call of `test` in a loop of its own, with a deadline."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*args, **kwargs), DEADLINE_S)

        asyncio.run(bounded())

    return run
