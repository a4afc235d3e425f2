"""One timer for many deadlines, few of which are ever reached."""

import heapq
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from ..runtime import Clock, Timer

K = TypeVar("K", bound=Hashable)

TURN_KEYS_MAX: Final = 10
"""The keys that ring before other tasks get their turn."""


def _ring_nobody(key: object) -> None:
    pass


class Alarms(Generic[K]):
    """Calls `ring(key)` once the time set for a key is reached."""

    def __init__(self, clock: Clock, ring: Callable[[K], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._set_ms: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._number = 0  # a tie-breaker, so that keys need no order
        self._timer: Timer | None = None

    def set(self, key: K, at_ms: int) -> None:
        """Ring at this time, or earlier if an earlier time is already set."""
        before_ms = self._set_ms.get(key)
        if before_ms is not None and before_ms <= at_ms:
            return
        self._set_ms[key] = at_ms
        self._number += 1
        heapq.heappush(self._heap, (at_ms, self._number, key))
        if self._heap[0][1] == self._number:
            self._start_timer()

    def close(self) -> None:
        """Clear all alarms, and let go of whom they ring: the two would keep each other."""
        self._set_ms.clear()
        self._heap.clear()
        self._start_timer()
        self._ring = _ring_nobody

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer = self._clock.call_at(self._heap[0][0], self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._clock.timer_ms()
        rung = 0
        try:
            while self._heap and self._heap[0][0] <= now_ms and rung < TURN_KEYS_MAX:
                at_ms, _, key = heapq.heappop(self._heap)
                if self._set_ms.get(key) == at_ms:  # otherwise it was reset to an earlier time
                    del self._set_ms[key]
                    rung += 1
                    self._ring(key)
        finally:  # if one fails, the others are still rung
            self._start_timer()
