"""When the replicas of leaderless partitions are compared: at once, then less and less often.

Brokers may have to find out first what they have, and some partitions stay without a leader for
another reason, so a comparison may come to nothing. It is repeated after longer and longer pauses,
unless there is a partition that was not compared before: then it begins anew.
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
    """The comparisons of one controller."""

    def __init__(
        self,
        find: Callable[[], Set[TopicPartition]],
        compare: Callable[[Collection[TopicPartition]], Awaitable[None]],
        tasks: TaskSupervisor,
    ) -> None:
        """`find` says what can be compared now."""
        self._find = find
        self._compare = compare
        self._tasks = tasks
        self._compared: Set[TopicPartition] = frozenset()
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def look(self) -> None:
        """Something has happened: compare what can be, unless it is only what was before."""
        found = frozenset() if self._is_over else self._find()
        if self._task is None:
            if found:
                self._task = self._tasks.spawn(self._run(), "compare last replicas")
        else:
            if not found <= self._compared:
                self._more.set()
            self._compared = self._compared & found  # what has a leader may lose it again

    def end(self) -> None:
        """Compare no more.  May be repeated."""
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
