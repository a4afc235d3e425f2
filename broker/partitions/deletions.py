"""Unlinks renamed files after a delay, in threads.

The delay gives time to readers that have a file open, and to users who want it back. Files that are
pending when the broker stops are found at the next start: directories by the suffix `-delete`,
files by `.deleted`.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

from odradek.storage.errors import LogDirFailed

from ..runtime import Runtime
from ..tasks import to_the_end


class Plan(Protocol):
    """Something to unlink, such as `DeletePlan` and `UnlinkPlan`."""

    def run(self) -> None:
        """Unlink, in any thread.  Raises: LogDirFailed."""
        ...


class Deletions:
    """The files that one broker still has to unlink."""

    def __init__(self, runtime: Runtime, on_failure: Callable[[LogDirFailed], None]) -> None:
        self._clock = runtime.clock
        self._offload = runtime.offload
        self._on_failure = on_failure
        self._pending: list[tuple[int, int, Plan]] = []  # a heap
        self._numbers = itertools.count()
        self._added = asyncio.Event()

    def __len__(self) -> int:
        """How many plans are pending."""
        return len(self._pending)

    def add(self, plan: Plan, delay_ms: int) -> None:
        """Have a plan run once the delay is over."""
        due_ms = self._clock.timer_ms() + delay_ms
        heapq.heappush(self._pending, (due_ms, next(self._numbers), plan))
        self._added.set()

    async def run(self) -> None:
        """Run due plans forever, one at a time."""
        while True:
            self._added.clear()
            if not self._pending or self._pending[0][0] > self._clock.timer_ms():
                await self._wait()
                continue
            _, _, plan = heapq.heappop(self._pending)
            try:
                await to_the_end(self._offload(plan.run))
            except LogDirFailed as error:
                self._on_failure(error)

    async def _wait(self) -> None:
        """Until the first plan is due, or one is added."""
        if not self._pending:
            await self._added.wait()
            return
        timer = self._clock.call_at(self._pending[0][0], self._added.set)
        try:
            await self._added.wait()
        finally:
            timer.cancel()
