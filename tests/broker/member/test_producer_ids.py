"""Producer ids, a block at a time."""

import asyncio
from collections.abc import Awaitable

import pytest

from odradek.broker.member.producer_ids import WAIT_S, ProducerIds, allocator
from odradek.broker.peers.peer import PeerFailed
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.schema import Message
from tests.sim.loop import simulate

SIZE = 20


class Blocks:
    """A controller that hands out blocks, each after some waiting."""

    def __init__(self) -> None:
        self.first = 100
        self.asked = 0
        self.failures: list[Exception] = []
        self.delay_s = 0.0

    async def allocate(self) -> range:
        self.asked += 1
        await asyncio.sleep(self.delay_s)
        if self.failures:
            raise self.failures.pop(0)
        self.first += SIZE
        return range(self.first - SIZE, self.first)


def run(test: Awaitable[None]) -> None:
    """With simulated time."""

    async def main(_: object) -> None:
        await test

    simulate(main, 1)


def test_everybody_gets_another_and_blocks_are_asked_for_once() -> None:
    async def test() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        found = await asyncio.gather(*(ids.next_id() for _ in range(3 * SIZE - 5)))
        assert found == list(range(100, 95 + 3 * SIZE))
        assert blocks.asked == 3

    run(test())


def test_the_next_block_is_there_before_it_is_needed() -> None:
    async def test() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        for _ in range(SIZE * 9 // 10):
            await ids.next_id()
        assert blocks.asked == 1
        await ids.next_id()
        await asyncio.sleep(1)
        assert blocks.asked == 2
        blocks.delay_s = 3600
        for _ in range(SIZE):
            await ids.next_id()
        ids.close()

    run(test())


def test_failures_are_tried_again_while_somebody_waits() -> None:
    async def test() -> None:
        blocks = Blocks()
        blocks.failures = [Refused(ErrorCode.STALE_BROKER_EPOCH) for _ in range(3)]
        ids = ProducerIds(blocks.allocate)
        assert list(await asyncio.gather(ids.next_id(), ids.next_id())) == [100, 101]
        assert blocks.asked == 4

    run(test())


def test_who_waits_too_long_is_told_to_come_again() -> None:
    async def test() -> None:
        blocks = Blocks()
        blocks.delay_s = 2 * WAIT_S
        ids = ProducerIds(blocks.allocate)
        with pytest.raises(Refused) as refused:
            await ids.next_id()
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(2 * WAIT_S)
        assert await ids.next_id() == 100
        assert blocks.asked == 1

    run(test())


def test_a_client_that_is_closed() -> None:
    async def test() -> None:
        blocks = Blocks()
        blocks.failures = [PeerFailed("closed")]
        ids = ProducerIds(blocks.allocate)
        with pytest.raises(Refused) as refused:
            await ids.next_id()
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await ids.next_id() == 100

    run(test())


def test_a_caller_that_goes_takes_nothing_with_him() -> None:
    async def test() -> None:
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

    run(test())


def test_the_controller_is_asked_with_the_epoch_of_the_moment() -> None:
    asked: list[Message] = []
    epochs = iter((5, 6, 7))

    async def ask(request: Message, version: int) -> Message:
        assert version == 0
        asked.append(request)
        if len(asked) == 1:
            return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        if len(asked) == 2:
            return AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=1000)
        return AllocateProducerIdsResponse(producer_id_start=3000, producer_id_len=1000)

    async def test() -> None:
        allocate = allocator(ask, 0, broker_id=3, broker_epoch=lambda: next(epochs))
        assert await ProducerIds(allocate).next_id() == 3000
        assert asked == [
            AllocateProducerIdsRequest(broker_id=3, broker_epoch=epoch) for epoch in (5, 6, 7)
        ]

    run(test())
