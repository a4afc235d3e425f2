"""Blocking calls of the fixture beside the event loop of a test."""

import asyncio
from collections.abc import Callable


async def beside_the_loop(
    call: Callable[[], None], *, undo: Callable[[], None] | None = None
) -> None:
    """Run a blocking call in a thread; under another library than asyncio, right here.

    A cancelled wait does not stop the thread: `undo` then follows once it is through.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if undo is not None:
            then = undo
            task.add_done_callback(lambda _: then())
        raise
