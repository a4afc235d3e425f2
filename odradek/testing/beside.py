"""Runs blocking calls of the fixture beside a test's event loop."""

from collections.abc import Callable


async def beside_the_loop(
    call: Callable[[], None], *, undo: Callable[[], None] | None = None
) -> None:
    """Run a blocking call in a thread; without an asyncio loop, in this one.

    Cancelling the wait does not stop the thread: `undo` then runs in it after the call.
    """
    import asyncio  # here, as tests that are not asynchronous need not wait for it
    from concurrent.futures import Future

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    through = Future[None]()  # set by the call itself: the task around it may be cancelled, too

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
