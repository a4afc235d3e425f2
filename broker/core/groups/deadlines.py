"""The deadlines of one group: moved with every heartbeat, and rarely reached."""

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

STALE_MAX: Final = 64
"""Limits the outdated heap entries: the heap is cleaned up above 2 * deadlines + this number."""


class Deadlines(Generic[K]):
    """Times of the monotonic clock, by key.

    A deadline moved to a later time keeps its heap entry, which is moved only when it is reached.
    """

    __slots__ = ("_at_ms", "_heap", "_number", "_queued_ms")

    def __init__(self) -> None:
        self._at_ms: dict[K, int] = {}
        self._queued_ms: dict[K, int] = {}  # the time of each heap entry: at or before the deadline
        self._heap: list[tuple[int, int, K]] = []
        self._number = 0  # a tie-breaker, so that keys need no order

    @property
    def wake_ms(self) -> int | None:
        """When to call `due` next, or None.  Never later than the first deadline, but possibly
        earlier, as moving a deadline to a later time leaves the heap as it is."""
        return self._heap[0][0] if self._heap else None

    def set(self, key: K, at_ms: int) -> None:
        """Set a deadline, or move it."""
        self._at_ms[key] = at_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or at_ms < queued_ms:
            self._queue(key, at_ms)

    def clear(self, key: K) -> None:
        """Clear a deadline, if it is set."""
        self._at_ms.pop(key, None)

    def get(self, key: K) -> int | None:
        """A deadline, or None if it is not set."""
        return self._at_ms.get(key)

    def due(self, now_ms: int) -> list[K]:
        """Remove and return the keys whose deadline has passed, the earliest first."""
        came: list[tuple[int, int, K]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, number, key = heapq.heappop(self._heap)
            if self._queued_ms.get(key) != queued_ms:
                continue  # outdated: the deadline was also queued at an earlier time
            del self._queued_ms[key]
            at_ms = self._at_ms.get(key)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                self._queue(key, at_ms)
            else:
                del self._at_ms[key]
                came.append((at_ms, number, key))
        return [key for _, _, key in sorted(came, key=lambda entry: entry[:2])]

    def _queue(self, key: K, at_ms: int) -> None:
        if len(self._heap) > 2 * len(self._at_ms) + STALE_MAX:
            self._forget_stale()
        self._number += 1
        self._queued_ms[key] = at_ms
        heapq.heappush(self._heap, (at_ms, self._number, key))

    def _forget_stale(self) -> None:
        self._queued_ms = {key: at for key, at in self._queued_ms.items() if key in self._at_ms}
        self._heap = [entry for entry in self._heap if self._queued_ms.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)
