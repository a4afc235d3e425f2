"""Splits long work into small slices, between which the event loop runs other tasks."""

import asyncio
from typing import Final

from .runtime import Clock

SLICE_MS: Final = 5
SLICE_STEPS: Final = 100
"""The most steps of a slice, even if the clock stands still, as in a simulation."""


class Slices:
    """After each step, check whether the slice `is_over`; if so, `pause`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._steps_left = SLICE_STEPS
        self._end_ms = self._clock.now_ms() + SLICE_MS

    @property
    def is_over(self) -> bool:
        """Whether other tasks must run now; counts a step."""
        self._steps_left -= 1
        return self._steps_left <= 0 or self._clock.now_ms() >= self._end_ms

    async def pause(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)
        self._begin()

    async def step(self) -> None:
        """Count a step, and pause if the slice is over."""
        if self.is_over:
            await self.pause()
