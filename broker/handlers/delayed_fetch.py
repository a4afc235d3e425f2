"""A Fetch that waits: it is looked at again whenever one of its partitions has news."""

import asyncio
from typing import Protocol

from odradek.protocol.messages.k01_fetch import FetchResponse

from ..core.fetch_reads import Read, release_all
from ..core.fetch_session import Key
from ..core.news import News
from ..net.eager_future import EagerFuture


class Reading(Protocol):
    """What a waiting Fetch is to be answered with."""

    def read(self) -> list[Read]:
        """Read every partition."""

    def read_again(self, reads: list[Read]) -> list[Read]:
        """As `reads`, but what has news, and what gave records, is read anew."""

    def is_enough(self, reads: list[Read]) -> bool:
        """Whether the answer need not wait."""

    def respond(self, reads: list[Read]) -> FetchResponse:
        """The answer."""

    def end(self) -> None:
        """Nothing is waited for any more."""


class DelayedFetch(EagerFuture[FetchResponse]):
    """The answer: when there is enough, or the time is up; cancelled by who wants it no more.

    However many partitions have news in one turn of the loop, they are read once, in the next.
    What has none is not read again before the time is up.
    """

    def __init__(
        self, reading: Reading, reads: list[Read], news: News[Key], *, wait_s: float
    ) -> None:
        """`reads` were not enough, and have been released; `news` is of the same partitions."""
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._reading = reading
        self._reads = reads
        self._news = news
        self._is_due = False
        self._deadline_s = loop.time() + wait_s
        self._timer = loop.call_at(self._deadline_s, self._look)
        news.listen(self._hear)

    def cancel(self, msg: object = None) -> bool:
        """Nobody wants it any more."""
        self._end()
        return super().cancel(msg)

    def _hear(self) -> None:
        """There is news."""
        if not self._is_due:
            self._is_due = True
            self.get_loop().call_soon(self._look)

    def _look(self) -> None:
        """Answer, or wait on."""
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
        self._news.leave(self._hear)  # it knows this, which would be a circle
        self._reading.end()
