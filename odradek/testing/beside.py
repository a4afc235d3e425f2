"""Blocking calls of the fixture beside the event loop of a test."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future


async def beside_the_loop(
    call: Callable[[], None], *, undo: Callable[[], None] | None = None
) -> None:
    """Run a blocking call in a thread; under another library than asyncio, right here.

    A cancelled wait does not stop the thread: `undo` then follows in it, once the call is through.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    through = Future[None]()  # of the call: the task that waits for it may be cancelled, too

    def call_through() -> None:
        try:
            call()
        finally:
            through.set_result(None)

    try:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(call_through)))
    except asyncio.CancelledError:
        if undo is not None:
            then = undo
            through.add_done_callback(lambda _: then())
        raise
