"""A broker that starts names the transactions that perhaps nobody will end."""

import asyncio
import logging
from pathlib import Path

import pytest

from odradek.protocol.records import MarkerType
from tests.broker.running import running
from tests.storage.log.test_txn_index import Producers

LINE = "transactions are open for more than ms=900000 partitions=1 first=t-1; "


@pytest.mark.parametrize("is_ended", [False, True])
def test_they_are_named_at_the_start(
    tmp_path: Path, is_ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 2)
            producers = Producers(broker.node.replicas.partitions["t", 1].log)
            producers.write(7, b"long ago")
            if is_ended:
                producers.end(7, MarkerType.ABORT)
        caplog.clear()
        async with running(tmp_path):
            said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
            assert any(line.startswith(LINE) for line in said) is not is_ended

    asyncio.run(main())
