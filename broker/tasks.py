"""Background tasks that are not awaited, and awaits that survive cancellation."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from odradek.protocol.errors import Refused

T = TypeVar("T")

logger = logging.getLogger(__name__)


async def to_the_end(awaitable: Awaitable[T]) -> T:
    """Await work that can't be cancelled, such as a thread's; a cancellation takes effect after it.

    Otherwise its files could be closed or deleted meanwhile, or the same work be started again.
    """
    running = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):  # cancelled again
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not log it
        raise


class TaskSupervisor:
    """Owns background tasks: keeps references, reports exceptions, cancels the tasks at the end.

    `on_failure(name, error)` is called in the event loop after the traceback was logged; it decides
    what follows (stop the partition, stop the broker).
    """

    def __init__(self, on_failure: Callable[[str, Exception], None] | None = None) -> None:
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._finishing: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many tasks run."""
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Start `coroutine`.  The returned task ends normally even if the coroutine raised.

        Raises: RuntimeError after `close`.
        """
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"task {name} spawned after close")
        task = asyncio.create_task(self._run(coroutine, name), name=name)
        self._tasks[task] = None
        # A task cancelled before its first step never enters _run. Its coroutine is closed here,
        # otherwise Python would warn that it was never awaited.
        task.add_done_callback(lambda _: coroutine.close())
        task.add_done_callback(self._tasks.pop)
        return task

    def finish(self, coroutine: Coroutine[object, object, T]) -> Coroutine[object, object, T]:
        """Start work that continues even if its caller is cancelled: only `close` cancels it.

        Awaiting raises what the work raises; if the caller was cancelled, that is logged instead,
        except Refused.
        """
        task = asyncio.create_task(coroutine)
        for tasks in (self._tasks, self._finishing):
            tasks[task] = None
            task.add_done_callback(tasks.pop)
        return self._finished(task)

    async def finished(self) -> None:
        """Return once the work of `finish` has ended, as far as it has been started."""
        if self._finishing:
            await asyncio.wait(self._finishing)

    @staticmethod
    async def _finished(task: asyncio.Task[T]) -> T:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_say_failure)
            raise

    async def close(self) -> None:
        """Cancel every task and wait until all have ended."""
        self._closed = True
        own = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, coroutine: Coroutine[object, object, None], name: str) -> None:
        try:
            await coroutine
        except Exception as error:  # this task is not awaited, so the error must be reported here
            logger.exception("task failed name=%s", name)
            if self._on_failure is not None:
                self._on_failure(name, error)


def _say_failure(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, Refused):
        logger.error("call failed, its caller no longer waits error=%r", error, exc_info=error)
