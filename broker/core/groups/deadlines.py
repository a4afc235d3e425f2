"""The deadlines of one group: many are moved with every heartbeat, few are ever met."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """Times of the monotonic clock, by what they are for."""

    __slots__ = ("_at_ms", "wake_ms")

    def __init__(self) -> None:
        self._at_ms: dict[K, int] = {}
        self.wake_ms: int | None = None
        """When to call `due` next: never later than the first deadline, but it may be too early,
        as nothing is looked through when a deadline is moved away.  None: there are none."""

    def set(self, key: K, at_ms: int) -> None:
        """Set a deadline, or move it."""
        self._at_ms[key] = at_ms
        if self.wake_ms is None or at_ms < self.wake_ms:
            self.wake_ms = at_ms

    def clear(self, key: K) -> None:
        """Forget a deadline; it need not be there."""
        self._at_ms.pop(key, None)

    def get(self, key: K) -> int | None:
        """A deadline, if it is set."""
        return self._at_ms.get(key)

    def due(self, now_ms: int) -> list[K]:
        """Take out what has come, the earliest first."""
        came = sorted(
            (at_ms, number, key)
            for number, (key, at_ms) in enumerate(self._at_ms.items())
            if at_ms <= now_ms
        )
        for _, _, key in came:
            del self._at_ms[key]
        self.wake_ms = min(self._at_ms.values(), default=None)
        return [key for _, _, key in came]
