"""Spans whose data is not in memory: read ahead in a thread, while others are served."""

import asyncio
import contextlib
import os
import socket
import struct
import threading
from pathlib import Path

import pytest

from odradek.broker.net import connections as module
from odradek.storage.log.span import Span
from tests.support.awaiting import until
from tests.support.connections import HungUp
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, fetch_request, records_in

from ..requests import metadata
from ..running import RunningBroker, on_broker
from .test_connection import deaf_client

DATA = bytes(range(256)) * 2000


class SlowDisk:
    """Says that spans are cold, and holds the threads that warm them up."""

    def __init__(self, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reading = threading.Event()
        self.go_on = threading.Event()
        self.reads = 0
        self.error: OSError | None = None
        monkeypatch.setattr(broker.connections, "is_cold", lambda span: True)
        monkeypatch.setattr(broker.connections, "read_if_warm", lambda span: None)
        monkeypatch.setattr(module, "_read_through", self.read_through)

    def read_through(self, descriptor: int, position: int, size_bytes: int) -> None:
        self.reads += 1
        self.reading.set()
        assert self.go_on.wait(10)
        if self.error is not None:
            raise self.error


@on_broker(both=False)
async def test_others_are_served_while_a_span_is_read_ahead(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t")
    for _ in range(2):
        await client.append("t", batch_of(DATA))
    disk = SlowDisk(broker, monkeypatch)
    fetching = asyncio.ensure_future(client.fetch("t", 1))
    await until(disk.reading.is_set)
    await other.ask(metadata("t"), 12)
    assert not fetching.done()
    disk.go_on.set()
    assert records_in((await fetching).records) == [(1, DATA)]
    assert disk.reads == 1, "once is enough"


@on_broker(both=False)
async def test_who_hangs_up_meanwhile_leaves_nothing(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(DATA))
    disk = SlowDisk(broker, monkeypatch)
    client.send(fetch_request("t"), 12)
    await until(disk.reading.is_set)
    client.abort()
    await until(lambda: len(broker.connections) == 0)
    assert broker.files.references, "the thread still reads"
    disk.go_on.set()
    await until(lambda: not broker.files.references)


@on_broker(both=False)
async def test_a_span_that_cannot_be_read_ahead(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(DATA))
    disk = SlowDisk(broker, monkeypatch)
    disk.error = OSError(5, os.strerror(5))
    disk.go_on.set()
    client.send(fetch_request("t"), 12)
    with pytest.raises(HungUp):
        await client.read_frame()


@on_broker(both=False)
async def test_what_the_page_cache_says(broker: RunningBroker, tmp_path: Path) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"small"))
    partition = broker.node.replicas.partitions["t", 0]
    span = partition.log.read(0, size_bytes_max=1 << 20, offset_end=1, at_least_one=True)
    assert isinstance(span, Span)
    try:
        assert not broker.connections.is_cold(span)  # it was just written
        assert broker.connections.read_if_warm(span) == span.read()
    finally:
        span.release()


@pytest.mark.parametrize("code", [95, 38, 22])
@on_broker(both=False)
async def test_file_systems_that_cannot_say(
    broker: RunningBroker, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(DATA))
    await client.append("t", batch_of(b"small"))
    broker.connections._can_probe = True
    monkeypatch.setattr(os, "preadv", refuse)
    for offset, value in ((1, b"small"), (0, DATA)):
        assert (offset, value) in records_in((await client.fetch("t", offset)).records)
    assert not broker.connections._can_probe


@pytest.mark.parametrize(
    ("position", "size_bytes", "end"),
    [
        (0, 3 << 20, 3 << 20),
        (5, 100, 105),
        (5, 2 << 20, (2 << 20) + 5),
        (2 << 20, 5 << 20, 3 << 20),  # there is less than that
        (9 << 20, 1, 9 << 20),  # there is nothing
    ],
)
def test_reading_through_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int, size_bytes: int, end: int
) -> None:
    """Each byte of the span once, and none beyond it."""
    (tmp_path / "file").write_bytes(bytes(3 << 20))
    read_end = position

    def noted(descriptor: int, count: int, at: int) -> bytes:
        nonlocal read_end
        assert at == read_end
        data = pread(descriptor, count, at)
        read_end += len(data)
        return data

    pread = os.pread
    monkeypatch.setattr(os, "pread", noted)
    with (tmp_path / "file").open("rb") as file:
        module._read_through(file.fileno(), position, size_bytes)
    assert read_end == end


async def in_flight(broker: RunningBroker) -> socket.socket:
    """A client that does not read the large answer it has asked for."""
    writer = await broker.client()
    await writer.create_topic("t")
    for _ in range(20):
        await writer.append("t", batch_of(DATA))
    deaf = await deaf_client(broker)
    request = fetch_request("t", max_bytes=1 << 30, partition_max_bytes=1 << 30)
    deaf.send(framed(request_bytes(request, 12)))
    await until(lambda: any(c.is_sending for c in broker.connections._open))
    assert broker.files.references
    return deaf


SMALL_BUFFERS = {"socket.send.buffer.bytes": "65536"}


@on_broker(SMALL_BUFFERS)
async def test_a_log_that_is_cut_below_an_answer_on_its_way(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    deaf = await in_flight(broker)
    broker.node.replicas.partitions["t", 0].log.truncate(1)
    await until(lambda: len(broker.connections) == 1)
    assert "log was truncated below an answer" in caplog.text
    deaf.close()


@on_broker(SMALL_BUFFERS)
async def test_a_file_that_is_shorter_than_an_answer_on_its_way(broker: RunningBroker) -> None:
    deaf = await in_flight(broker)
    os.truncate(broker.node.replicas.partitions["t", 0].log.segments.active.file.path, 100)
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ConnectionError):
        while await loop.sock_recv(deaf, 1 << 16):
            pass
    await until(lambda: len(broker.connections) == 1)
    deaf.close()


@on_broker(SMALL_BUFFERS)
async def test_stopping_while_an_answer_is_on_its_way(broker: RunningBroker) -> None:
    deaf = await in_flight(broker)
    await broker.stop()
    assert broker.files.references == []
    deaf.close()


@on_broker()
async def test_a_client_that_resets_its_connection(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for wait_ms in (0, 60_000):
        sock = await deaf_client(broker)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.send(framed(request_bytes(fetch_request("t", wait_ms=wait_ms), 12)))
        await until(lambda: len(broker.connections) == 2)
        sock.close()
        await until(lambda: len(broker.connections) == 1)
