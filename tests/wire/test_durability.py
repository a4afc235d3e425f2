"""Writes that wait for an fsync: how few fsyncs many producers need, and real clients with it."""

import asyncio
import threading
from pathlib import Path
from typing import Final

import pytest

from odradek.storage.files import RealFileSystem
from odradek.storage.log.log_file import LogFile
from tests.broker.running import RunningBroker, WatchedFiles, running
from tests.support.brokers import StartServer, create_topic
from tests.support.client import Client
from tests.support.messages import batch_of
from tests.wire.load import JavaLoad, LibrdkafkaLoad, numbers_in, wait_for_acks

PRODUCERS: Final = 32
REQUESTS_EACH: Final = 20
EACH: Final = {"log.flush.interval.messages": "1"}
ACKS_ALL: Final = {"acks": "all", "enable.idempotence": "true"}
CLIENTS: Final = [
    pytest.param(JavaLoad, id="java", marks=pytest.mark.java),
    pytest.param(LibrdkafkaLoad, id="librdkafka"),
]


class CountedLogFile(LogFile):
    """A segment whose fsyncs are counted."""

    __slots__ = ()
    _files: "CountingFiles"

    def sync(self) -> None:
        super().sync()
        with self._files.counting:
            self._files.sync_count += self.path.endswith(".log")


class CountingFiles(WatchedFiles):
    """The machine's own disk, with real fsyncs."""

    def __init__(self) -> None:
        super().__init__()
        self.counting = threading.Lock()
        self.sync_count = 0

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        self.log_files.append(CountedLogFile(self, path, size_bytes))
        return self.log_files[-1]

    def fsync(self, descriptor: int) -> None:
        RealFileSystem.fsync(self, descriptor)


async def one_by_one(client: Client, broker: RunningBroker) -> None:
    """Produce with one request in flight; what is answered is durable."""
    for _ in range(REQUESTS_EACH):
        offset = await client.append("t", batch_of(b"v"))
        assert broker.node.replicas.partitions["t", 0].log.recovery_point > offset


@pytest.mark.usefixtures("odradek_only")
def test_one_fsync_covers_many_producers(tmp_path: Path) -> None:
    async def main() -> None:
        files = CountingFiles()
        async with running(tmp_path, EACH, files=files) as broker:
            clients = [await broker.client() for _ in range(PRODUCERS)]
            await clients[0].create_topic("t")
            before = files.sync_count
            await one_by_one(clients[0], broker)
            assert files.sync_count - before == REQUESTS_EACH  # nobody to share with
            before = files.sync_count
            await asyncio.gather(*(one_by_one(client, broker) for client in clients))
            fsyncs, requests = files.sync_count - before, PRODUCERS * REQUESTS_EACH
            assert fsyncs < requests / 4, f"{fsyncs} fsyncs for {requests} requests"

    asyncio.run(main())


@pytest.mark.parametrize("client", CLIENTS)
def test_real_producers_with_an_fsync_for_each_write(
    start_server: StartServer, client: type[JavaLoad | LibrdkafkaLoad]
) -> None:
    server = start_server()
    create_topic(server.bootstrap_servers, "t", config={"flush.messages": "1"})
    with client(server.bootstrap_servers, "t", ACKS_ALL) as load:
        wait_for_acks(server, load, more=5_000)
        sent = load.finish()
        assert not load.failed
        assert sorted(load.acked) == list(range(sent))
    assert numbers_in(server.bootstrap_servers, "t") == list(range(sent))
