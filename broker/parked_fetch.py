"""A Fetch that waits: it is looked at again whenever one of its partitions has news."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from odradek.protocol.messages.k01_fetch import FetchResponse

from .core.fetch_reads import Read, release_all
from .core.waiters import Waiter
from .later import Later


class Reading(Protocol):
    """What a waiting Fetch is to be answered with."""

    def read(self) -> list[Read]:
        """Read every partition."""

    def is_enough(self, reads: list[Read]) -> bool:
        """Whether the answer need not wait."""

    def respond(self, reads: list[Read]) -> FetchResponse:
        """The answer."""


class ParkedFetch(Later[FetchResponse]):
    """The answer: when there is enough, or the time is up; cancelled by who wants it no more.

    However many partitions have news in one turn of the loop, they are read once, in the next.
    """

    def __init__(
        self, reading: Reading, waiters: Sequence[set[Waiter]], *, wait_s: float, has_news: bool
    ) -> None:
        """`has_news`: it is to be looked at in any case."""
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._reading = reading
        self._waiters = waiters
        self._is_due = False
        self._deadline_s = loop.time() + wait_s
        self._timer = loop.call_at(self._deadline_s, self._look)
        self._waiter: Waiter = self._note
        for waiting in waiters:
            waiting.add(self._waiter)
        if has_news:
            self._note()

    def cancel(self, msg: object = None) -> bool:
        """Nobody wants it any more."""
        self._end()
        return super().cancel(msg)

    def _note(self) -> None:
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
            reads = self._reading.read()
            if not self._reading.is_enough(reads) and self.get_loop().time() < self._deadline_s:
                release_all(reads)
                return
            self._end()
            answer = self._reading.respond(reads)
        except Exception as error:  # noqa: BLE001 - a bug must not leave the fetcher waiting
            self._end()
            self.fail(error)
            return
        self.finish(answer)

    def _end(self) -> None:
        self._timer.cancel()
        for waiting in self._waiters:
            waiting.discard(self._waiter)
