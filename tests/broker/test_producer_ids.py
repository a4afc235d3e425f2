"""Producer ids, a block at a time."""

import asyncio

import pytest

from odradek.broker.producer_ids import ProducerIds


class Blocks:
    """A controller that hands out blocks of three, each after some waiting."""

    def __init__(self) -> None:
        self.first = 100
        self.asked = 0
        self.failures = 0

    async def allocate(self) -> range:
        self.asked += 1
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.first += 3
        return range(self.first - 3, self.first)


def test_everybody_gets_another_and_blocks_are_asked_for_once() -> None:
    async def main() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        assert await asyncio.gather(*(ids.next_id() for _ in range(7))) == list(range(100, 107))
        assert blocks.asked == 3

    asyncio.run(main())


def test_a_failure_is_one_callers_and_the_next_asks_again() -> None:
    async def main() -> None:
        blocks = Blocks()
        blocks.failures = 1
        ids = ProducerIds(blocks.allocate)
        first, second = await asyncio.gather(ids.next_id(), ids.next_id(), return_exceptions=True)
        assert isinstance(first, ConnectionError)
        assert second == 100

    asyncio.run(main())


def test_a_caller_that_goes_takes_nothing_with_him() -> None:
    async def main() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        gone = asyncio.ensure_future(ids.next_id())
        other = asyncio.ensure_future(ids.next_id())
        await asyncio.sleep(0)
        gone.cancel()
        assert await other == 100
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert await ids.next_id() == 101

    asyncio.run(main())
