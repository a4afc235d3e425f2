"""A follower's log becomes its leader's, byte for byte."""

import asyncio
from pathlib import Path

import pytest

from odradek.protocol.records import Codec
from tests.broker.client import batch_of

from .cluster import TOPIC, replicating, state_of


@pytest.mark.parametrize("codec", list(Codec))
def test_a_follower_has_the_same_bytes(tmp_path: Path, codec: Codec) -> None:
    async def main() -> None:
        async with replicating(tmp_path) as cluster:
            await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
            client = await cluster[1].client()
            for number in range(5):
                batch = batch_of(*[b"%d" % number] * 20, codec=codec)
                result = await client.produce(TOPIC, batch, acks=-1)
                assert (result.error_code, result.base_offset) == (0, 20 * number)
            await cluster.until_equal()
            assert cluster[2].partition().log.high_watermark == 100
            assert cluster[2].partition().log.epochs.entries() == [(0, 0)]

    asyncio.run(main())
