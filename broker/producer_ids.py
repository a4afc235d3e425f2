"""Producer ids for idempotent producers, taken from the controller in blocks.

An id is never handed out twice, also not after a restart: what is left of a block is then lost.
"""

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """The ids of this broker's current block."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._allocating = asyncio.Lock()

    async def next_id(self) -> int:
        """An id that nobody has had."""
        while not self._block:
            async with self._allocating:
                if not self._block:
                    self._block = await self._allocate()
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id
