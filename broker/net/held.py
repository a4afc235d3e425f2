"""Refused connections that are closed later, as their clients would come again at once."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from ..runtime import Clock, Timer

HELD_PER_HOST_MAX: Final = 32
HELD_MAX: Final = 1024


class Held:
    """Nothing is read of these connections, and they count for no other limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[Timer, Callable[[], None]] = {}
        self._per_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, host: str, close: Callable[[], None], delay_ms: int) -> None:
        """Call `close` after a delay, or at once if too many connections are held already."""
        if len(self._held) >= HELD_MAX or self._per_host[host] >= HELD_PER_HOST_MAX:
            close()
            return

        def let_go() -> None:
            del self._held[timer]
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]
            close()

        timer = self._clock.call_at(self._clock.timer_ms() + delay_ms, let_go)
        self._held[timer] = close
        self._per_host[host] += 1

    def close_all(self) -> None:
        """Close all connections now, as the broker stops."""
        held, self._held = self._held, {}
        self._per_host.clear()
        for timer, close in held.items():
            timer.cancel()
            close()
