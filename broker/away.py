"""A broker that does not reach its embedded store, as it is paused or a test has cut the network.

It does not use its session, and does not hear that it expires: the store ends it at its timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable

from .pause import Pause
from .tasks import TaskSupervisor


class Away:
    """Whether a broker is away from its store, and why."""

    def __init__(self, timeout_ms: int, expire: Callable[[], Awaitable[None]]) -> None:
        """`expire` ends the session, `timeout_ms` after it was left."""
        self.pause = Pause()
        """For the session."""
        self._timeout_ms = timeout_ms
        self._expire = expire
        self._reasons: set[str] = set()
        self._expiring: asyncio.Task[None] | None = None

    def begin(self, why: str, tasks: TaskSupervisor) -> None:
        """Leave the store alone, for one more reason."""
        if not self._reasons:
            self.pause.begin()
            self._expiring = tasks.spawn(self._expire_later(), "expire a session that is left")
        self._reasons.add(why)

    def end(self, why: str) -> None:
        """This is no reason any more; without another one, use the session again."""
        self._reasons.discard(why)
        if not self._reasons:
            self.end_all()

    def end_all(self) -> None:
        """Use the session again, whatever the reason is, as the broker is about to end."""
        self._reasons.clear()
        if self._expiring is not None:
            self._expiring.cancel()
            self._expiring = None
        if self.pause.is_on:
            self.pause.end()

    async def _expire_later(self) -> None:
        await asyncio.sleep(self._timeout_ms / 1000)
        await self._expire()
