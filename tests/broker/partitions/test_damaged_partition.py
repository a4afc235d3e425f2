"""A broker on a damaged directory: one partition is refused with its reason, the others served."""

import asyncio
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.metrics.counters import PARTITIONS_NOT_LOADED
from odradek.protocol.errors import ErrorCode
from tests.support.awaiting import until
from tests.support.messages import batch_of, records_in

from ..requests import delete_topics
from ..running import RunningBroker, running

pytestmark = pytest.mark.wire


async def with_topics(broker: RunningBroker) -> None:
    client = await broker.client()
    for topic in ("t", "u"):
        await client.create_topic(topic)
        for number in range(3):
            await client.append(topic, batch_of(b"%d" % number))


def old_format(partition: Path) -> None:
    body = struct.pack(">bbii", 0, 0, -1, 1) + b"v"
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    (partition / f"{0:020d}.log").write_bytes(message)


def directory_for_a_log(partition: Path) -> None:
    os.unlink(partition / f"{0:020d}.log")
    (partition / f"{0:020d}.log").mkdir()


def file_for_a_directory(partition: Path) -> None:
    os.rename(partition, partition.with_name("old"))
    partition.write_text("mine")


@pytest.mark.parametrize("damage", [old_format, directory_for_a_log, file_for_a_directory])
def test_one_partition_is_refused_and_the_others_are_served(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await with_topics(broker)
        (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
        damage(tmp_path / "data" / "t-0")
        async with running(tmp_path) as broker:
            assert "partition not served" in caplog.text
            assert broker.node.metrics.counters[PARTITIONS_NOT_LOADED] == 1
            client = await broker.client()
            refused = ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.fetch("t")).error_code == refused
            assert (await client.produce("t", batch_of(b"x"))).error_code == refused
            assert len(records_in((await client.fetch("u")).records)) == 3
            await client.append("u", batch_of(b"3"))
            # Once the topic is deleted its name is free, and what lay there is kept.
            await client.ask(delete_topics(6, "t"), 6)
            data_dir = tmp_path / "data"
            await until(lambda: [n for n in os.listdir(data_dir) if n.endswith("-stray")])
            await client.create_topic("t")
            assert await client.append("t", batch_of(b"new")) == 0

    asyncio.run(main())


@pytest.mark.parametrize("text", ["", "x", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", None])
def test_a_topic_id_that_is_damaged_costs_nothing(tmp_path: Path, text: str | None) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await with_topics(broker)
        path = tmp_path / "data" / "t-0" / "partition.metadata"
        good = path.read_bytes()
        if text is None:  # one bit of the last letters
            path.write_bytes(good[:-2] + bytes([good[-2] ^ 1]) + good[-1:])
        else:
            path.write_text(text)
        async with running(tmp_path) as broker:
            records = records_in((await (await broker.client()).fetch("t")).records)
            assert len(records) == 3
            assert path.read_bytes() == good
            assert {str(path), str(path.parent)} <= set(broker.files.synced)

    asyncio.run(main())
