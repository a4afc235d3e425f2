"""A Fetch that waits: when it is read again, and what of it."""

import asyncio
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.core.news import News
from odradek.broker.core.waiters import Waiters
from odradek.broker.handlers.delayed_fetch import DelayedFetch
from odradek.broker.runtime import Moves
from odradek.protocol.messages.k01_fetch import FetchResponse
from tests.support.awaiting import turns
from tests.support.collecting import nothing_collected

LONG_S = 60.0


class Reading:
    """Has enough once it is told so."""

    def __init__(self, partitions: int) -> None:
        self.news: list[Waiters] = [Waiters() for _ in range(partitions)]
        self.reads: list[Any] = [
            SimpleNamespace(partition=number, span=None) for number in range(partitions)
        ]
        self.looked: list[set[int]] = []
        self.has_enough = False
        self.breaks = False

    def delay(self, wait_s: float = LONG_S, moves: Moves | None = None) -> DelayedFetch:
        self._news: News[Any] = News()
        for number, waiters in enumerate(self.news):
            self._news.watch(number, waiters, [waiters])
        return DelayedFetch(self, self.reads, self._news, wait_s=wait_s, moves=moves)

    def end(self) -> None:
        self._news.end()

    def read(self) -> list[Any]:
        return self._look(set(range(len(self.reads))))

    def read_again(self, reads: list[Any]) -> list[Any]:
        noted, self._news.noted = self._news.noted, {}
        return self._look(set(noted))

    def _look(self, numbers: set[int]) -> list[Any]:
        self.looked.append(numbers)
        if self.breaks:
            raise ZeroDivisionError
        return self.reads

    def is_enough(self, reads: list[Any]) -> bool:
        return self.has_enough

    def respond(self, reads: list[Any]) -> FetchResponse:
        return FetchResponse(responses=[])


def test_only_what_has_news_is_read_and_once_a_turn() -> None:
    async def test() -> None:
        reading = Reading(3)
        delayed = reading.delay()
        for number in (2, 0, 2):
            reading.news[number].wake()
        await turns()
        assert reading.looked == [{0, 2}]
        reading.news[1].wake()
        reading.has_enough = True
        assert isinstance(await delayed, FetchResponse)
        assert reading.looked == [{0, 2}, {1}]
        assert not any(reading.news)

    asyncio.run(test())


def test_all_is_read_when_the_time_is_up() -> None:
    async def test() -> None:
        reading = Reading(2)
        assert isinstance(await reading.delay(0.001), FetchResponse)
        assert reading.looked == [{0, 1}]

    asyncio.run(test())


def test_who_owes_the_answer_is_told_in_the_same_turn() -> None:
    async def test() -> None:
        reading = Reading(1)
        delayed = reading.delay()
        told: list[bool] = []
        delayed.on_end = lambda task: told.append(task.done())
        reading.has_enough = True
        reading.news[0].wake()
        await asyncio.sleep(0)
        assert told == [True]

    asyncio.run(test())


def test_nobody_wants_it_any_more() -> None:
    async def test() -> None:
        reading = Reading(2)
        delayed = reading.delay()
        reading.news[0].wake()
        assert delayed.cancel()
        assert not any(reading.news)
        await turns()
        assert reading.looked == []

    asyncio.run(test())


def test_what_is_answered_goes_at_once() -> None:
    """Without the collector: it knows each partition of a session, and there are many of these."""

    async def test() -> None:
        reading = Reading(2)
        delayed = reading.delay()
        reading.has_enough = True
        reading.news[0].wake()
        await delayed
        gone = weakref.ref(delayed)
        del delayed
        await turns()
        assert gone() is None

    with nothing_collected():
        asyncio.run(test())


def test_a_bug_leaves_nobody_waiting() -> None:
    async def test() -> None:
        reading = Reading(1)
        delayed = reading.delay()
        reading.breaks = True
        reading.news[0].wake()
        with pytest.raises(ZeroDivisionError):
            await delayed
        assert not any(reading.news)

    asyncio.run(test())


def test_a_move_of_the_clock_shortens_the_wait() -> None:
    async def test() -> None:
        moves: Moves = set()
        reading = Reading(1)
        delayed = reading.delay(moves=moves)
        (move,) = moves
        move(int(LONG_S * 1000) - 10_000)
        await turns()
        assert not delayed.done()
        move(10_000)
        assert isinstance(await delayed, FetchResponse)
        assert reading.looked == [{0}]
        assert not moves
        cancelled = Reading(1).delay(moves=moves)
        cancelled.cancel()
        assert not moves

    asyncio.run(test())
