"""The controller's event queue, in order of arrival."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

Handle = Callable[[], Awaitable[None]]


class Events:
    """A queue of handlers by key; a key that is already waiting is not queued again."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Handle] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: Hashable, handle: Handle) -> None:
        """Queue `handle`, unless a handler waits under this key."""
        self._waiting.setdefault(key, handle)
        self._filled.set()

    async def next(self) -> Handle:
        """Wait for a handler, and remove and return the oldest."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._waiting))
        return self._waiting.pop(key)
