"""Concurrent store operations, in slices that yield the event loop, and retries."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, cast

from ..coordination.interface import CoordinationLost

IN_FLIGHT_MAX: Final = 100
SLICE: Final = 32
"""Operations between yields of the loop: reads from the embedded store finish without waiting."""
RETRY_BACKOFF_S: Final = 0.1

T = TypeVar("T")
R = TypeVar("R")


async def map_concurrently(
    function: Callable[[T], Awaitable[R]], items: Sequence[T], *, in_flight_max: int = IN_FLIGHT_MAX
) -> list[R]:
    """Apply `function` to each item; results are in order, and the first error ends it all."""
    if len(items) == 1:
        return [await function(items[0])]
    results: list[R | None] = [None] * len(items)
    todo = iter(range(len(items)))

    async def work() -> None:
        for index in todo:
            results[index] = await function(items[index])
            if index % SLICE == 0:
                await asyncio.sleep(0)

    workers = [asyncio.ensure_future(work()) for _ in range(min(in_flight_max, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
    return cast(list[R], results)


async def until_connected(operation: Callable[[], Awaitable[T]]) -> T:
    """Repeat an operation while the connection is lost; it may therefore run more than once.

    Raises: SessionExpired, and what the operation raises.
    """
    while True:
        try:
            return await operation()
        except CoordinationLost:
            await asyncio.sleep(RETRY_BACKOFF_S)
