"""Blocks of producer ids."""

import asyncio

import pytest

from odradek.broker.cluster.producer_id_blocks import BLOCK_SIZE
from odradek.broker.coordination import znodes
from odradek.protocol.errors import ErrorCode, Refused
from tests.broker.cluster.cluster_world import world
from tests.broker.coordination.asynchronous import asynchronous

PATH = znodes.PRODUCER_ID_BLOCK


@asynchronous
async def test_no_id_is_given_twice() -> None:
    async with world() as w:
        await w.session.delete(PATH)
        first = await w.member(1)
        second = await w.member(2)
        controller = (await w.controller()).controller
        blocks = await asyncio.gather(*(controller.allocate_producer_ids(7) for _ in range(4)))
        data, _ = await w.session.get(PATH)
        assert data == b'{"version":1,"broker":7,"block_start":"3000","block_end":"3999"}'
        await first.kill()
        w.members.remove(first)
        await w.controller()
        blocks.append(await second.controller.allocate_producer_ids(8))
        ids = [producer_id for block in blocks for producer_id in block]
        assert sorted(ids) == list(range(5 * BLOCK_SIZE))


@pytest.mark.parametrize(
    "data", [b"?", znodes.ProducerIdBlock(1, (1 << 63) - 1000, (1 << 63) - 1).encode()]
)
@asynchronous
async def test_there_are_none(data: bytes) -> None:
    async with world() as w:
        await w.session.set(PATH, data)
        await w.member(1)
        controller = (await w.controller()).controller
        with pytest.raises(Refused) as refused:
            await controller.allocate_producer_ids(1)
        assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert controller.is_active
