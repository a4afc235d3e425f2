"""Connections of the simulated network: order, pieces, back-pressure, ends and resets."""

import asyncio
import random

import pytest

from .loop import SimLoop, simulate
from .node import Node
from .transport import WINDOW_BYTES, SimTransport

SEEDS = range(15)
MIB = 1 << 20


class Recorder(asyncio.Protocol):
    """Notes all that happens to one end."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.pieces: list[int] = []
        self.events: list[str] = []
        self.error: Exception | None = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces.append(len(data))

    def eof_received(self) -> None:
        self.events.append("end")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.error = exc
        self.lost.set_result(None)


class Buffered(asyncio.BufferedProtocol):
    """Receives into a small buffer of its own."""

    def __init__(self) -> None:
        self.received = bytearray()
        self._buffer = bytearray(1_000)
        self.lost = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def _pair(loop: SimLoop) -> tuple[Node, Recorder, Recorder]:
    """A node with a server that has closed again, and the two ends of one connection to it."""
    node = loop.node("broker")
    accepted: list[Recorder] = []

    def factory() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    server = await node.run(loop.create_server(factory, "127.0.0.1", 0))
    port = server.sockets[0].getsockname()[1]
    _, client = await loop.create_connection(Recorder, "127.0.0.1", port)
    assert isinstance(client, Recorder)
    while not accepted or "made" not in accepted[0].events:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    server.close()
    return node, client, accepted[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_arrive_whole_and_in_order_in_pieces(seed: int) -> None:
    async def main(loop: SimLoop) -> list[int]:
        _, client, server = await _pair(loop)
        data = random.Random(seed).randbytes(300_000)
        for start in range(0, len(data), 10_000):
            buffer = bytearray(data[start : start + 10_000])
            client.transport.write(buffer)
            buffer[:] = bytes(len(buffer))  # the writer may reuse what it wrote
        client.transport.close()
        await server.lost
        assert server.received == data
        assert server.events == ["made", "end", "lost"]
        assert server.error is client.error is None
        return server.pieces

    assert len(simulate(main, seed).value) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_reader_pauses_the_writer(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        _, client, server = await _pair(loop)
        server.transport.pause_reading()
        client.transport.write(bytes(2 * MIB))
        await asyncio.sleep(10)
        assert len(server.received) == 0
        assert client.events == ["made", "pause"]
        assert client.transport.get_write_buffer_size() >= 2 * MIB - WINDOW_BYTES
        server.transport.resume_reading()
        await asyncio.sleep(10)
        assert len(server.received) == 2 * MIB
        assert client.events == ["made", "pause", "resume"]
        client.transport.close()
        await server.lost

    simulate(main, seed)


def test_write_buffer_limits_are_kept() -> None:
    async def main(loop: SimLoop) -> None:
        _, client, server = await _pair(loop)
        client.transport.set_write_buffer_limits(high=MIB)
        assert client.transport.get_write_buffer_limits() == (MIB // 4, MIB)
        server.transport.pause_reading()
        client.transport.write(bytes(MIB))
        assert "pause" not in client.events
        client.transport.writelines([bytes(WINDOW_BYTES), b"y"])
        assert "pause" in client.events
        client.transport.abort()
        await client.lost
        server.transport.abort()
        await server.lost

    simulate(main, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_buffered_protocol_gets_the_same_bytes(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        ends: list[Buffered] = []

        def factory() -> Buffered:
            ends.append(Buffered())
            return ends[0]

        server = await loop.create_server(factory, "localhost", 9092)
        transport, _ = await loop.create_connection(Recorder, "localhost", 9092)
        data = random.Random(seed).randbytes(50_000)
        transport.write(data)
        transport.close()
        await asyncio.sleep(10)
        assert ends[0].received == data
        assert await ends[0].lost is None
        server.close()
        await server.wait_closed()

    simulate(main, seed)


def test_half_a_close_leaves_the_way_back() -> None:
    class Answering(Recorder):
        def eof_received(self) -> None:
            self.transport.write(b"answer to " + self.received)
            self.transport.close()

    async def main(loop: SimLoop) -> bytes:
        server = await loop.create_server(Answering, "localhost", 9092)
        transport, client = await loop.create_connection(Recorder, "localhost", 9092)
        transport.write(b"question")
        transport.write_eof()
        with pytest.raises(RuntimeError, match="after write_eof"):
            transport.write(b"more")
        assert isinstance(client, Recorder)
        await client.lost
        server.close()
        return bytes(client.received)

    assert simulate(main, 1).value == b"answer to question"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_breaks_connections_and_frees_the_port(seed: int) -> None:
    async def main(loop: SimLoop) -> tuple[Exception | None, list[str]]:
        node, client, server = await _pair(loop)
        port = client.transport.get_extra_info("peername")[1]
        client.transport.write(b"half a req")
        loop.crash(node)
        client.transport.write(b"uest")
        await asyncio.wait_for(client.lost, 1)
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "127.0.0.1", port)
        again = await loop.node("broker").run(loop.create_server(Recorder, "127.0.0.1", port))
        again.close()
        await asyncio.sleep(1)
        return client.error, server.events

    error, server_events = simulate(main, seed).value
    assert server_events == ["made"], "a killed process sees no connection_lost"
    assert error is None or isinstance(error, ConnectionError)


def test_crashes_end_connections_both_ways() -> None:
    async def main(loop: SimLoop) -> str:
        node, client, _ = await _pair(loop)
        loop.crash(node)
        await client.lost
        return type(client.error).__name__

    assert {simulate(main, seed).value for seed in SEEDS} == {"NoneType", "ConnectionResetError"}


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_cancelled_while_connecting_leaves_nothing(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        server = await loop.create_server(Recorder, "localhost", 9092)
        connecting = loop.create_task(loop.create_connection(Recorder, "localhost", 9092))
        await asyncio.sleep(loop.random.uniform(0, 0.0005))
        connecting.cancel()
        try:
            transport, _ = await connecting
            transport.close()
        except asyncio.CancelledError:
            pass
        server.close()
        await server.wait_closed()
        await asyncio.sleep(1)

    simulate(main, seed)


def test_closing_over_unread_bytes_resets_the_peer() -> None:
    async def main(loop: SimLoop) -> None:
        _, client, server = await _pair(loop)
        server.transport.pause_reading()
        client.transport.write(b"unread")
        await asyncio.sleep(1)
        server.transport.close()
        await client.lost
        assert isinstance(client.error, ConnectionResetError)

    simulate(main, 1)


def test_writing_to_who_has_gone_is_a_reset() -> None:
    async def main(loop: SimLoop) -> None:
        _, client, server = await _pair(loop)
        client.transport.pause_reading()
        server.transport.close()
        await asyncio.sleep(1)
        assert not client.lost.done()
        client.transport.write(b"anybody there?")
        await asyncio.sleep(1)
        client.transport.write(b"hello?")
        await client.lost
        assert isinstance(client.error, BrokenPipeError)

    simulate(main, 1)


def test_a_port_has_one_listener() -> None:
    async def main(loop: SimLoop) -> None:
        server = await loop.create_server(Recorder, "0.0.0.0", 9092)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(Recorder, "localhost", 9092)
        with pytest.raises(NotImplementedError, match="ssl"):
            await loop.create_server(Recorder, "localhost", 9093, ssl=object())
        server.close()
        await server.wait_closed()

    simulate(main, 1)


def test_a_protocol_that_fails_loses_its_connection() -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("bug")

    async def main(loop: SimLoop) -> None:
        server = await loop.create_server(Broken, "localhost", 9092)
        transport, client = await loop.create_connection(Recorder, "localhost", 9092)
        loop.set_exception_handler(lambda _loop, context: seen.append(context["exception"]))
        transport.write(b"x")
        assert isinstance(client, Recorder)
        await client.lost
        server.close()
        await server.wait_closed()

    seen: list[Exception] = []
    simulate(main, 1)
    assert [type(error) for error in seen] == [LookupError]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_held_port_lets_nothing_through_and_loses_nothing(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        _, client, server = await _pair(loop)
        port = client.transport.get_extra_info("peername")[1]
        held_until = loop.time() + 2
        loop.network.hold(port, 2 * 10**9)
        client.transport.write(b"there")
        server.transport.write(b"back")
        await asyncio.sleep(1.9)
        assert not client.received
        assert not server.received
        while not (client.received == b"back" and server.received == b"there"):
            await asyncio.sleep(0.01)
            assert loop.time() < held_until + 1
        client.transport.close()
        await asyncio.gather(client.lost, server.lost)

    simulate(main, seed)
