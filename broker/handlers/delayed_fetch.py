"""A delayed Fetch: it is checked again whenever one of its partitions has news."""

import asyncio
from typing import Protocol

from odradek.protocol.messages.k01_fetch import FetchResponse

from ..core.fetch_reads import Read, release_all
from ..core.fetch_session import Key
from ..core.news import News
from ..net.eager_future import EagerFuture
from ..runtime import Moves


class Reading(Protocol):
    """Reads partitions for a delayed Fetch and builds its answer."""

    def read(self) -> list[Read]:
        """Read every partition."""

    def read_again(self, reads: list[Read]) -> list[Read]:
        """Return `reads`, reading again partitions that have news or returned records."""

    def is_enough(self, reads: list[Read]) -> bool:
        """Whether the answer can be sent now."""

    def respond(self, reads: list[Read]) -> FetchResponse:
        """Build the answer."""

    def end(self) -> None:
        """Stop watching for news."""


class DelayedFetch(EagerFuture[FetchResponse]):
    """A future answer: set when there is enough to return, or when the time is up.

    All partitions that have news in one turn of the loop are read once, in the next turn. Until
    the time is up, other partitions are not read again, unless they returned records. Cancel the
    future to stop waiting.
    """

    def __init__(
        self,
        reading: Reading,
        reads: list[Read],
        news: News[Key],
        *,
        wait_s: float,
        moves: Moves | None = None,
    ) -> None:
        """`reads` were not enough and have been released; `news` is for the same partitions.

        `moves` of the clock end the wait earlier.  It never lasts longer, even if the clock is
        frozen: the client's other requests on the connection wait behind this one.
        """
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._reading = reading
        self._reads = reads
        self._news = news
        self._is_due = False
        self._deadline_s = loop.time() + wait_s
        self._timer = loop.call_at(self._deadline_s, self._look)
        news.listen(self._hear)
        self._moves = moves
        if moves is not None:
            moves.add(self._move)

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting."""
        self._end()
        return super().cancel(msg)

    def _hear(self) -> None:
        """Schedule a check in the next turn of the loop."""
        if not self._is_due:
            self._is_due = True
            self.get_loop().call_soon(self._look)

    def _move(self, by_ms: int) -> None:
        """Wait for less time, as the clock was moved."""
        self._deadline_s -= by_ms / 1000
        self._timer.cancel()
        self._timer = self.get_loop().call_at(self._deadline_s, self._look)

    def _look(self) -> None:
        """Answer, or continue to wait."""
        self._is_due = False
        if self.done():
            return
        try:
            is_over = self.get_loop().time() >= self._deadline_s
            if is_over:
                self._reads = self._reading.read()
            else:
                self._reads = self._reading.read_again(self._reads)
            if not is_over and not self._reading.is_enough(self._reads):
                release_all(self._reads)
                return
            self._end()
            answer = self._reading.respond(self._reads)
        except Exception as error:  # noqa: BLE001 - a bug must not leave the fetcher waiting
            self._end()
            self.fail(error)
            return
        self.finish(answer)

    def _end(self) -> None:
        self._timer.cancel()
        if self._moves is not None:
            self._moves.discard(self._move)
        self._news.leave(self._hear)  # otherwise there would be a reference cycle
        self._reading.end()
