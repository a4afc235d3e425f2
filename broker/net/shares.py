"""Shares the time of the loop among connections: whoever has used least of it lately comes first.

While there is little to do, each connection is served when something has come. This costs least,
but under a flood everybody waits for all others that are ready. So `watch` looks whether the loop
is late, and then connections take turns. After `TURN_NS` of work whoever comes has to wait until
the loop has looked who else is ready. Then the one is served that is rested first, and the loop
looks again after each `TURN_NS`. So a client that asks for little waits for one request of another
client, or for one turn, and not for everything that many busy clients have sent. Once nobody had to
wait for `CALM_NS`, connections take no turns any more.

What a connection has used while others waited counts half as much after `HALF_LIFE_NS`. It is
rested when one nanosecond is left of it. The times at which connections are rested never change
their order by waiting, and who waits is overtaken only by those that use less.
"""

import asyncio
import heapq
from collections.abc import Callable
from math import log2
from typing import Final, Protocol

TURN_NS: Final = 500_000
PAUSE_NS: Final = 10_000
"""After so long without work the loop has looked: it takes less from one connection to the next."""
HALF_LIFE_NS: Final = 100_000_000
CALM_NS: Final = 1_000_000_000
WATCH_S: Final = 0.1  # a shorter interval costs an idle broker more
LATE_S: Final = 0.001


class Sharer(Protocol):
    """One of those who share the loop."""

    rested_ns: float
    """When it is rested; at first `Shares.last_rested_ns`."""

    def on_turn(self) -> None:
        """Do what has to be done; it may `wait` for the next turn to do the rest."""


class Shares:
    """Serves one of the sharers at a time."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.now_ns = now_ns
        self.take_turns = False
        """Whether a connection must `enter` to be served."""
        self.last_rested_ns = 0.0
        """When all are rested. Newcomers begin there: else many of them would get everything."""
        self._is_free = True
        """Whether nobody has entered and is served, and nobody waits."""
        self._looked_ns = 0
        """When the loop has looked who is ready."""
        self._ended_ns = 0
        """When the last service ended."""
        self._waited_ns = 0
        """When somebody had to wait for more than one turn, or the loop was late."""
        self._arrived: list[Sharer] = []
        """Who waits and is not in the heap: if it is being served, its time has yet to change."""
        self._waiting: list[tuple[float, int, Sharer]] = []
        """A heap, by the time when they are rested."""
        self._count = 0

    async def watch(self) -> None:
        """Look whether the loop is late, forever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + WATCH_S
            await asyncio.sleep(WATCH_S)
            if loop.time() > due_s + LATE_S:
                self.begin_turns()

    def begin_turns(self) -> None:
        """Let connections take turns for a while."""
        self.take_turns = True
        self._waited_ns = self.now_ns()

    def enter(self, sharer: Sharer) -> None:
        """Call `on_turn` when it is the sharer's turn; it must not enter again before that."""
        if not self._is_free:
            self._arrived.append(sharer)
            return
        now_ns = self.now_ns()
        if now_ns - self._ended_ns > PAUSE_NS:
            self._looked_ns = now_ns
            self.take_turns = now_ns - self._waited_ns < CALM_NS
        elif now_ns - self._looked_ns >= TURN_NS:
            self.wait(sharer)
            return
        self._is_free = False
        try:
            sharer.on_turn()
        finally:
            self._ended_ns = self.now_ns()
            if self._arrived:
                self._look()
            else:
                self._is_free = True

    def wait(self, sharer: Sharer) -> None:
        """Call `on_turn` in another turn of the loop; it must not enter again before that."""
        self._arrived.append(sharer)
        self._looked_ns -= TURN_NS  # so this turn is over, even if the clock stands still
        if self._is_free:
            self._is_free = False
            self._look()

    def _look(self) -> None:
        """Go on after the loop has looked who is ready: it calls timers after that."""
        asyncio.get_running_loop().call_at(0, self._go_on)

    def _go_on(self) -> None:
        self._looked_ns = now_ns = self.now_ns()
        try:
            while self._arrived or self._waiting:
                self._sort_in()
                now_ns = self._serve(heapq.heappop(self._waiting)[-1], now_ns)
                if now_ns - self._looked_ns >= TURN_NS:
                    break
        finally:
            self._ended_ns = now_ns
            if self._arrived or self._waiting:
                self._waited_ns = now_ns
                self._look()
            else:
                self._is_free = True

    def _sort_in(self) -> None:
        for sharer in self._arrived:
            self._count += 1
            heapq.heappush(self._waiting, (sharer.rested_ns, self._count, sharer))
        self._arrived.clear()

    def _serve(self, sharer: Sharer, began_ns: int) -> int:
        """Serve one of those who waited; return the time."""
        try:
            sharer.on_turn()
        finally:
            ended_ns = self.now_ns()
            left_ns = 2 ** ((sharer.rested_ns - began_ns) / HALF_LIFE_NS)
            used_ns = left_ns + ended_ns - began_ns + 1
            sharer.rested_ns = rested_ns = began_ns + HALF_LIFE_NS * log2(used_ns)
            self.last_rested_ns = max(self.last_rested_ns, rested_ns)
        return ended_ns
