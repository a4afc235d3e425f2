"""Schedules the comparison of leaderless partitions' replicas: at once, then less and less often.

A comparison may elect no leader: brokers may first have to find out what their logs hold, and some
partitions have no leader for another reason. It is repeated after growing pauses. A partition that
was not compared before ends the pause and resets it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Set
from contextlib import suppress
from typing import Final

from ..core.partition_state import TopicPartition
from ..tasks import TaskSupervisor

PAUSE_MIN_S: Final = 0.5
PAUSE_MAX_S: Final = 30.0


class Comparing:
    """Repeats the comparisons of one controller."""

    def __init__(
        self,
        find: Callable[[], Set[TopicPartition]],
        compare: Callable[[Collection[TopicPartition]], Awaitable[None]],
        tasks: TaskSupervisor,
    ) -> None:
        """`find` returns the partitions that can be compared now."""
        self._find = find
        self._compare = compare
        self._tasks = tasks
        self._compared: Set[TopicPartition] = frozenset()
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def look(self) -> None:
        """Start comparing if anything can be compared.  New partitions end the current pause."""
        found = frozenset() if self._is_over else self._find()
        if self._task is None:
            if found:
                self._task = self._tasks.spawn(self._run(), "compare last replicas")
        else:
            if not found <= self._compared:
                self._more.set()
            self._compared = self._compared & found  # one that has a leader may lose it again

    def end(self) -> None:
        """Stop comparing.  Idempotent."""
        self._is_over = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        pause_s = PAUSE_MIN_S
        try:
            while found := self._find():
                if not found <= self._compared:
                    pause_s = PAUSE_MIN_S
                self._compared = found
                self._more.clear()
                await self._compare(found)
                if self._find():
                    await self._pause(pause_s)
                    pause_s = min(2 * pause_s, PAUSE_MAX_S)
        finally:
            self._task, self._compared = None, frozenset()

    async def _pause(self, pause_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._more.wait()
