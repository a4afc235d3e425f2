"""A broker that is paused, as SIGSTOP pauses a process; here it may share its process with others.

It reads no requests, sends none to other brokers, and neither uses its session with the store nor
keeps it alive. What it has begun goes on: an answer that was due may still be sent, and timers run.
"""

import asyncio
from collections.abc import Callable


class Pause:
    """Whether a broker is paused, and what waits until it is not."""

    def __init__(self) -> None:
        self.is_on = False
        self._over = asyncio.Event()
        self._held: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Pause."""
        self.is_on = True
        self._over.clear()

    def end(self) -> None:
        """Let everything go on that waits."""
        self.is_on = False
        self._over.set()
        held, self._held = self._held, []
        for call in held:
            call()

    def hold(self, call: Callable[[], None]) -> None:
        """Call this when the pause ends."""
        self._held.append(call)

    async def over(self) -> None:
        """Return once the broker is not paused."""
        while self.is_on:
            await self._over.wait()
