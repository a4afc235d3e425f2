"""Long steps of many connections, spread over the turns of the loop."""

import asyncio
from collections import deque
from collections.abc import Callable


class Turns:
    """Runs calls in order, one each turn of the loop, so that others are served between them."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, call: Callable[[], None]) -> None:
        """Run `call` after all those that wait."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._run)
        self._waiting.append(call)

    def _run(self) -> None:
        call = self._waiting.popleft()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._run)
        call()
