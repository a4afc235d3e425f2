"""A log that is new must not begin where a log of the same name ended: checkpoints go by names."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from odradek.storage.directory.moving import Copy
from odradek.storage.log.log_file import Bytes
from tests.support.awaiting import turns, until
from tests.support.messages import batch_of, delete_records

from .partitions.log_dirs import NAMES, alter, begun, broker_at, directories, log_of, others, values
from .requests import delete_topics
from .running import WatchedFiles


def crashed_copy(tmp_path: Path) -> Path:
    """The directories as a kill at this moment would leave them."""
    image = tmp_path / "image"
    image.mkdir()
    for name in NAMES:
        shutil.copytree(tmp_path / name, image / name)
    return image


class HeldCheckpoints(WatchedFiles):
    """Files whose checkpoints wait, in their threads."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go, self.held = threading.Event(), threading.Event()
        self.let_go.set()

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        if path.endswith("-offset-checkpoint"):
            if not self.let_go.is_set():
                self.held.set()
            assert self.let_go.wait(10)
        super().write_atomic(path, data, sync=sync)


@pytest.mark.slow
def test_a_new_topic_inherits_nothing_from_one_of_its_name(tmp_path: Path) -> None:
    files = HeldCheckpoints()

    async def first() -> None:
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for _ in range(20):
                await client.append("t", batch_of(b"old"))
            await client.ask(delete_records(("t", 0, 15)), 2)
            files.let_go.clear()
            await client.ask(delete_topics(6, "t"), 6)
            creating = asyncio.ensure_future(client.create_topic("t"))
            await asyncio.wait([creating], timeout=0.2)
            assert all("t-0" not in names for names in directories(tmp_path).values())
            files.let_go.set()
            await creating
            for _ in range(20):
                await client.append("t", batch_of(b"new"))
            crashed_copy(tmp_path)

    async def second() -> None:
        async with broker_at(tmp_path / "image") as broker:
            assert log_of(broker).log_start_offset == 0
            assert await values(await broker.client()) == [b"new"] * 20

    asyncio.run(first())
    asyncio.run(second())


def test_a_copy_inherits_nothing_from_a_replica_that_was_there(tmp_path: Path) -> None:
    files = HeldCheckpoints()

    async def main() -> None:
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for _ in range(20):
                await client.append("t", batch_of(b"x"))
            files.let_go.clear()
            assert await alter(client, others(broker)[0]) == [0]
            found = broker.node.replicas.log_dirs.find_future("t", 0)
            assert found is not None
            await until(files.held.is_set)
            await turns()
            assert found[1].size_bytes == 0
            files.let_go.set()
            await until(lambda: log_of(broker) is found[1])

    asyncio.run(main())


def test_a_copy_goes_on_from_where_it_was_durable(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await begun(broker, client)
            future = broker.node.replicas.log_dirs.find_future("t", 0)
            assert future is not None
            source, copied = log_of(broker), future[1]
            span = source.read(0, size_bytes_max=1 << 20, offset_end=20)
            assert span is not None
            data = span.read()
            span.release()
            copied.append_as_follower(memoryview(data), wall_ms=0)
            assert copied.recovery_point == 0 < copied.log_end_offset
            Copy(source, copied)  # as after a power cut, which takes what it likes of this
            assert copied.log_end_offset == 0
            let_go.set()
            await until(lambda: log_of(broker) is copied)
            assert len(await values(client)) == 30

    asyncio.run(main())
