"""What the controller still has to look at, in the order in which it heard of it."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

Handle = Callable[[], Awaitable[None]]


class Events:
    """A queue of things to do; what waits in it under a key already is not queued again."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Handle] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: Hashable, handle: Handle) -> None:
        """Have `handle` called behind all that waits."""
        self._waiting.setdefault(key, handle)
        self._filled.set()

    async def next(self) -> Handle:
        """The oldest, once there is one."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key = next(iter(self._waiting))
        return self._waiting.pop(key)
