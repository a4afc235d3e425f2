"""A moment in which no time passes: a broker does what it is asked, and nothing else.

While a `StandingLoop` stands still no timer comes due, so that what is counted is the same on a
busy machine as on an idle one.
"""

import asyncio
import selectors
import threading
import time

from odradek.broker.runtime import SystemClock

EventList = list[tuple[selectors.SelectorKey, int]]
IDLE_TIMEOUT_S = 60
QUIET_S = 0.002  # what one socket of this process has sent to another may be on its way


class StandingSelector(selectors.EpollSelector):
    """Tells when there is nothing left to do."""

    def __init__(self) -> None:
        super().__init__()
        self.standing = False
        self.turns = 0
        """How often the loop asked what is ready."""
        self.idle = threading.Event()

    def select(self, timeout: float | None = None) -> EventList:
        self.turns += 1
        if not self.standing or timeout == 0:
            return super().select(timeout)
        ready = super().select(QUIET_S)
        if not ready:
            self.idle.set()
            ready = super().select()
        return ready


class StandingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time can stand still; so does that of its `clock`."""

    def __init__(self) -> None:
        self.selector = StandingSelector()
        self.clock = StandingClock(self)
        self._stood_since_s = 0.0
        self._lost_s = 0.0
        super().__init__(self.selector)

    def time(self) -> float:
        now_s = self._stood_since_s if self.selector.standing else time.monotonic()
        return now_s - self._lost_s

    def stand(self) -> None:
        """Stop the time."""
        self._stood_since_s = time.monotonic()
        self.selector.standing = True

    def go_on(self) -> None:
        """Let the time pass again, from where it stood."""
        self.selector.standing = False
        self._lost_s += time.monotonic() - self._stood_since_s

    def until_idle(self) -> None:
        """From another thread: return when nothing is left to do since `idle` was cleared."""
        assert self.selector.idle.wait(IDLE_TIMEOUT_S), "the loop is never idle"


class StandingClock(SystemClock):
    """The broker's clock: that of the loop."""

    def __init__(self, loop: StandingLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)
