"""A running broker meets one fault at each system call on the way of a Produce.

Appends, rolls, flushes that answers wait for, checkpoints: nothing is acknowledged that is not
there after a restart, a disk that was only full is used again at once, a broken one never.
"""

import asyncio
import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.storage.errors import LogDirFailed
from odradek.storage.files import RealFileSystem
from tests.storage.faulty_os import SHORT, TORN, Fault, FaultyOs
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, records_in

from .running import RunningBroker, WatchedFiles, running

SETTINGS = {
    "log.flush.interval.messages": "1",
    "odradek.flush.ms": str(1 << 40),
    "odradek.flush.bytes": str(1 << 40),
}
SMALL_SEGMENTS = {"segment.bytes": "400", "index.interval.bytes": "50"}
MEMORY = Path("/dev/shm")

pytestmark = pytest.mark.wire


class SyncedFiles(WatchedFiles):
    """The machine's disk with all that a test can make fail."""

    def fsync(self, descriptor: int) -> None:
        RealFileSystem.fsync(self, descriptor)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, if there is one."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as path:
        yield Path(path)


class Work:
    """Produces and checkpoints; knows what was acknowledged, and what was sent."""

    def __init__(self, broker: RunningBroker, client: Client) -> None:
        self.broker = broker
        self.client = client
        self.acked: dict[int, bytes] = {}
        self.sent: list[bytes] = []
        self.codes: set[int] = set()

    async def produce(self, count: int) -> None:
        for _ in range(count):
            value = b"%d" % len(self.sent) * 15
            self.sent.append(value)
            batch = batch_of(value, timestamp=self.broker.clock.wall_ms())
            result = await self.client.produce("t", batch)
            self.codes.add(result.error_code)
            if result.error_code == 0:
                self.acked[result.base_offset] = value

    async def do(self) -> None:
        await self.produce(6)
        for _ in range(2):
            with contextlib.suppress(LogDirFailed):
                await self.broker.node.replicas.checkpoint()
            await self.produce(3)

    async def check(self, client: Client) -> None:
        """All that was acknowledged is served, and nothing that was not sent."""
        found: dict[int, bytes] = {}
        while True:
            data = await client.fetch("t", len(found))
            assert data.error_code == 0
            if data.high_watermark == len(found):
                break
            found.update(records_in(data.records))
        assert {offset: found.get(offset) for offset in self.acked} == self.acked
        assert set(found.values()) <= set(self.sent)


async def work_with(faulty: FaultyOs, path: Path) -> None:
    async with running(path, SETTINGS, files=SyncedFiles()) as broker:
        client = await broker.client()
        await client.create_topic("t", configs=SMALL_SEGMENTS)
        work = Work(broker, client)
        with faulty.installed():
            await work.do()
            if faulty.fault is not None and is_deadly(faulty.fault):  # a thread may have met it
                await until(lambda: broker.node.replicas.is_offline)
            is_offline = broker.node.replicas.is_offline
            assert work.codes <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
            assert faulty.fsyncs_after_failure == 0
            if is_offline:
                assert (await client.fetch("t")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            else:
                before = len(work.acked)
                await work.produce(1)
                assert len(work.acked) == before + 1
        if not is_offline:
            await work.check(client)
        if faulty.fault is not None:
            assert faulty.has_failed
            assert is_offline == is_deadly(faulty.fault)
    async with running(path, SETTINGS) as again:
        client = await again.client()
        await work.check(client)
        assert await client.append("t", batch_of(b"more")) >= len(work.acked)


def is_deadly(fault: Fault) -> bool:
    """Whether the directory goes offline: for all but a want of space."""
    if fault.kind in (SHORT, TORN):
        return False
    return fault.kind == errno.EIO or fault.site[-1] == "fsync"


def test_one_fault_at_each_call_site(memory: Path) -> None:
    whole = FaultyOs()
    asyncio.run(work_with(whole, memory / "whole"))
    faults = whole.faults()
    assert {fault.site[-1] for fault in faults} >= {"pwrite", "fsync", "create", "replace"}
    for number, fault in enumerate(faults):
        faulty = FaultyOs(fault)
        faulty.by_site = True
        try:
            asyncio.run(work_with(faulty, memory / str(number)))
        except BaseException as error:
            error.add_note(str(fault))
            raise
