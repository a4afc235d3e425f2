"""A table that makes its entries on use and drops those not used for long, so it stays small."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """Entries by key; over `count_max`, those not used for the longest time are dropped."""

    __slots__ = ("_count_max", "_entries", "_idle_ms_max", "_make")

    def __init__(self, make: Callable[[], V], *, count_max: int, idle_ms_max: int) -> None:
        self._make = make
        self._count_max = count_max
        self._idle_ms_max = idle_ms_max
        self._entries: dict[K, tuple[V, int]] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._entries)

    def use(self, key: K, now_ms: int) -> V:
        """The entry of `key`, new if there is none."""
        found = self._entries.pop(key, None)
        if found is None or now_ms - found[1] > self._idle_ms_max:
            found = self._make(), now_ms
        self._entries[key] = found[0], now_ms
        self._drop(now_ms)
        return found[0]

    def _drop(self, now_ms: int) -> None:
        while True:
            key, (_, used_ms) = next(iter(self._entries.items()))
            is_idle = now_ms - used_ms > self._idle_ms_max
            if not is_idle and len(self._entries) <= self._count_max:
                return
            del self._entries[key]
