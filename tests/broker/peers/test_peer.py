"""Questions to other brokers: good ones, and ones that do whatever a broken broker could do."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.peers.peer import Peer, PeerFailed, Setup, response_class
from odradek.protocol.framing import (
    FRAME_SIZE,
    encode_request,
    encode_response,
    read_client_id,
)
from odradek.protocol.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from tests.broker.peers.serving import (
    answer_heartbeats,
    heartbeat_answer,
    read_request,
)
from tests.broker.running import DEADLINE_S, running
from tests.sim.loop import SimLoop, simulate
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.frames import framed
from tests.support.messages import batch_of, fetch_request, records_in
from tests.support.tcp_server import HOST, Serve, TcpServer

MIB = 1 << 20


def peer_of(port: int, **more: Any) -> Peer:
    return Peer(HOST, port, client_id="7", **{"timeout_ms": 10_000, **more})


def run(test: Awaitable[None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(main())


async def ask_heartbeat(peer: Peer, version: int = 4) -> int:
    answer = await peer.ask(HeartbeatRequest(), version)
    assert isinstance(answer, HeartbeatResponse)
    return answer.error_code


def test_headers() -> None:
    """As Kafka's own client writes them: version 2 for flexible requests, 1 for others."""
    flexible = bytes(encode_request(HeartbeatRequest(), 4, 5, "é"))
    assert flexible[4:] == b"\0\x0c\0\x04\0\0\0\x05\0\x02\xc3\xa9\0" + bytes(
        HeartbeatRequest().encode(4)
    )
    assert FRAME_SIZE.unpack_from(flexible)[0] == len(flexible) - 4
    assert read_client_id(flexible[4:], flexible=True) == ("é", 13)
    classic = bytes(encode_request(HeartbeatRequest(), 3, 5, "7"))
    assert classic[4:15] == b"\0\x0c\0\x03\0\0\0\x05\0\x017"


def test_response_class() -> None:
    assert response_class(ElectLeadersRequest) is ElectLeadersResponse


def test_a_real_broker(tmp_path: Path) -> None:
    """Several callers at a time; versions with each kind of header."""

    async def test() -> None:
        async with running(tmp_path) as broker:
            peer = peer_of(broker.port)
            answers = await asyncio.gather(
                *(peer.ask(MetadataRequest(topics=[]), version) for version in range(1, 13))
            )
            for answer in answers:
                assert isinstance(answer, MetadataResponse)
                assert [node.node_id for node in answer.brokers] == [0]
            assert len(broker.connections) == 1
            peer.close()

    run(test())


def test_large_answers_are_views(tmp_path: Path) -> None:
    async def test() -> None:
        settings = {"message.max.bytes": str(12 * MIB)}
        async with running(tmp_path, settings) as broker:
            client: Client = await broker.client()
            await client.create_topic("t")
            large, small = b"x" * (10 * MIB), b"y"
            for value in (small, large, small):
                await client.append("t", batch_of(value))
            peer = peer_of(broker.port)
            kept: list[Any] = []
            for offset, value in enumerate((small, large, small)):
                request = fetch_request("t", offset, partition_max_bytes=1)
                answer = await peer.ask(request, 12)
                assert isinstance(answer, FetchResponse)
                kept.append(answer.responses[0].partitions[0].records)
                assert records_in(kept[-1]) == [(offset, value)]
            for view in kept[:2]:
                with pytest.raises(ValueError, match="released"):
                    len(view)
            assert isinstance(kept[2], memoryview)
            peer.close()

    run(test())


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.close()


async def hang_up_in_the_middle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, _, correlation_id, _ = await read_request(reader)
    writer.write(heartbeat_answer(correlation_id)[:-1])
    writer.close()


def answering(make: Callable[[int], bytes]) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, _, correlation_id, _ = await read_request(reader)
            writer.write(make(correlation_id))

    return serve


BROKEN: dict[str, tuple[Serve, str]] = {
    "reset": (reset, "hung up|reset"),
    "hang up": (hang_up, "hung up"),
    "half an answer": (hang_up_in_the_middle, "hung up"),
    "wrong correlation id": (
        answering(lambda at: heartbeat_answer(at + 1)),
        "answer to 1, not to 0",
    ),
    "negative size": (answering(lambda at: b"\xff\xff\xff\xff"), "frame of -1 bytes"),
    "huge size": (answering(lambda at: b"\x7f\xff\xff\xff"), "frame of 2147483647 bytes"),
    "empty": (answering(lambda at: framed(b"")), "response header"),
    "no body": (answering(lambda at: framed(at.to_bytes(4, "big"))), "not understood"),
    "short": (answering(lambda at: framed(heartbeat_answer(at)[4:-1])), "not understood"),
    "long": (answering(lambda at: framed(heartbeat_answer(at)[4:] + b"\0")), "1 bytes follow"),
    "two answers": (answering(lambda at: 2 * heartbeat_answer(at)), "not asked for"),
    "endless tags": (
        answering(lambda at: framed(at.to_bytes(4, "big") + b"\xff\xff\xff\xff\x0f" * 9)),
        "not understood",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_brokers(name: str) -> None:
    """A sentence with the address; and the next question goes out on a new connection."""
    serve, reason = BROKEN[name]

    async def test() -> None:
        served = 0

        async def first_broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            served += 1
            await (serve if served == 1 else answer_heartbeats)(reader, writer)

        server = TcpServer(first_broken)
        async with server:
            peer = peer_of(server.port)
            with pytest.raises(PeerFailed, match=f"127.0.0.1:{server.port}: .*({reason})"):
                await ask_heartbeat(peer)
            assert await ask_heartbeat(peer) == 27
            assert served == 2
            peer.close()

    run(test())


NOT_AN_ADDRESS = [
    (HOST, 65_536),
    (HOST, -1),
    ("a..b", 1),
    ("a\0b", 1),
    ("x" * 64, 1),
]


@pytest.mark.parametrize(("host", "port"), NOT_AN_ADDRESS)
def test_what_is_no_address(host: str, port: int) -> None:
    """Anybody can tell a broker of such peers, in ZooKeeper or with UpdateMetadata."""

    async def test() -> None:
        peer = Peer(host, port, client_id="7", timeout_ms=10_000)
        with pytest.raises(PeerFailed, match="can't be reached"):
            await ask_heartbeat(peer)

    run(test())


def test_bytes_after_the_answer() -> None:
    """What comes unasked ends the connection, and does not touch the views of the answer."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            _, _, correlation_id, _ = await read_request(reader)
            data = PartitionData(records=b"r" * 1000)
            response = FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
            frame = encode_response(response, 12, correlation_id, flexible_header=True)
            writer.write(frame)
            await go_on.wait()
            writer.write(b"z" * 2000)
            assert await reader.read() == b""
            writer.close()

        server = TcpServer(serve)
        async with server:
            peer = peer_of(server.port)
            answer = await peer.ask(FetchRequest(), 12)
            assert isinstance(answer, FetchResponse)
            go_on.set()
            await until(lambda: peer._connection is None, "still connected")
            assert answer.responses[0].partitions[0].records == b"r" * 1000
            peer.close()

    run(test())


async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.slow
def test_silence() -> None:
    async def test() -> None:
        server = TcpServer(stay_silent)
        async with server:
            peer = peer_of(server.port, timeout_ms=50)
            first, second = await asyncio.gather(
                ask_heartbeat(peer), ask_heartbeat(peer), return_exceptions=True
            )
            assert "did not answer in time" in str(first)
            assert "did not answer in time" in str(second)
            await until(lambda: len(server.connections) == 2, "each on a connection of its own")
            peer.close()

    run(test())


def test_a_question_that_failed_does_not_arrive_later() -> None:
    """The system would go on to deliver it: an order of the controller could undo a later one."""

    async def test() -> None:
        heard = asyncio.Event()
        ends: list[object] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await heard.wait()
            try:
                ends.append(await reader.read())
            except ConnectionError as error:
                ends.append(error)

        server = TcpServer(serve)
        async with server:
            peer = peer_of(server.port, timeout_ms=50)
            with pytest.raises(PeerFailed, match="did not answer in time"):
                await ask_heartbeat(peer)
            heard.set()
            await until(lambda: ends, "still open")
            assert isinstance(ends[0], ConnectionResetError)
            peer.close()

    run(test())


def test_a_cancelled_question_ends_the_connection() -> None:
    async def test() -> None:
        asked = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            asked += 1
            await (stay_silent if asked == 1 else answer_heartbeats)(reader, writer)

        server = TcpServer(serve)
        async with server:
            peer = peer_of(server.port)
            task = asyncio.create_task(ask_heartbeat(peer))
            waiting = asyncio.create_task(ask_heartbeat(peer))
            await until(lambda: asked == 1, "not asked")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await waiting == 27
            assert asked == 2
            peer.close()

    run(test())


def test_close_ends_who_waits() -> None:
    """For an answer, for a turn, for a connection; and afterwards it can be asked again."""

    async def test() -> None:
        server = TcpServer(stay_silent)
        async with server:
            peer = peer_of(server.port)
            tasks = [asyncio.create_task(ask_heartbeat(peer)) for _ in range(3)]
            await until(lambda: len(server.connections) == 1, "not asked")
            peer.close()
            peer.close()
            for failed in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(failed, PeerFailed)
                assert str(failed) == f"127.0.0.1:{server.port}: closed"
        server = TcpServer(answer_heartbeats)
        server.port = peer.port
        slow = peer_of(server.port, setup=Setup(backoff_ms=60_000))
        with pytest.raises(PeerFailed, match=r"can't be reached: Connection refused$"):
            await ask_heartbeat(slow)
        task = asyncio.create_task(ask_heartbeat(slow))
        await asyncio.sleep(0)
        slow.close()
        with pytest.raises(PeerFailed, match="closed"):
            await asyncio.wait_for(task, DEADLINE_S)
        async with server:
            assert await ask_heartbeat(peer) == 27
            peer.close()

    run(test())


def test_a_connection_that_is_not_opened_in_time() -> None:
    """Each try in a row may take twice as long, up to a limit."""

    async def main(loop: SimLoop) -> list[int]:
        setup = Setup(timeout_ms=100, timeout_max_ms=300, backoff_ms=0)
        peer = Peer(HOST, 1, client_id="7", timeout_ms=10_000, setup=setup)

        async def never(*arguments: object, **options: object) -> None:
            await asyncio.sleep(60)

        loop.create_connection = never  # type: ignore[method-assign, assignment]
        took_ms = []
        for _ in range(4):
            start_s = loop.time()
            with pytest.raises(PeerFailed, match=r"can't be reached: it took too long$"):
                await ask_heartbeat(peer)
            took_ms.append(round((loop.time() - start_s) * 1000))
        return took_ms

    assert simulate(main, 1).value == [100, 200, 300, 300]


def test_tries_are_apart() -> None:
    """A broker that is down is tried once every backoff."""

    async def main(loop: SimLoop) -> list[float]:
        peer = Peer(HOST, 1, client_id="7", timeout_ms=1000, setup=Setup(backoff_ms=50))
        times = []
        for _ in range(4):
            with pytest.raises(PeerFailed, match="can't be reached"):
                await ask_heartbeat(peer)
            times.append(loop.time())
        return times

    times = simulate(main, 1).value
    assert all(later - earlier >= 0.049 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("seed", range(4))
def test_on_the_simulated_loop(seed: int) -> None:
    """Large answers in pieces of any size, hang-ups at any time, closing at the end."""

    async def main(loop: SimLoop) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while loop.random.random() < 0.8:
                _, _, correlation_id, _ = await read_request(reader)
                data = PartitionData(records=bytes(loop.random.choice((10, 70_000, 300_000))))
                response = FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
                frame = encode_response(response, 12, correlation_id, flexible_header=True)
                writer.write(frame)
                await writer.drain()
            writer.close()

        server = TcpServer(serve)
        answered = 0
        async with server:
            peer = peer_of(server.port)
            for _ in range(40):
                with contextlib.suppress(PeerFailed):
                    answer = await peer.ask(FetchRequest(), 12)
                    assert isinstance(answer, FetchResponse)
                    answered += 1
            peer.close()
        await asyncio.sleep(1)
        return answered

    assert simulate(main, seed).value > 10


def versions_answer(correlation_id: int, ranges: dict[int, tuple[int, int]]) -> bytes:
    keys = [
        ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in ranges.items()
    ]
    response = ApiVersionsResponse(api_keys=keys)
    return bytes(encode_response(response, 4, correlation_id, flexible_header=False))


@pytest.mark.parametrize(("served", "asked"), [((0, 9), 4), ((0, 3), 3), ((0, 0), 0)])
def test_negotiation(served: tuple[int, int], asked: int) -> None:
    """Each connection begins with one ApiVersions; the highest common version is used."""

    async def test() -> None:
        seen: list[tuple[int, int]] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                api_key, version, correlation_id, _ = await read_request(reader)
                seen.append((api_key, version))
                if api_key == 18:
                    writer.write(versions_answer(correlation_id, {12: served}))
                else:
                    writer.write(heartbeat_answer(correlation_id, version))

        server = TcpServer(serve)
        async with server:
            peer = peer_of(server.port, negotiates=True)
            assert await ask_heartbeat(peer) == 27
            assert await ask_heartbeat(peer) == 27
            assert seen == [(18, 4), (12, asked), (12, asked)]
            server.connections[0].transport.abort()
            await until(lambda: peer._connection is None, "still connected")
            assert await ask_heartbeat(peer) == 27
            assert seen[3:] == [(18, 4), (12, asked)]
            with pytest.raises(PeerFailed, match="does not serve Metadata 12"):
                await peer.ask(MetadataRequest(), 12)
            assert await ask_heartbeat(peer) == 27
            peer.close()

    run(test())


def test_a_negotiation_that_fails_is_held_again() -> None:
    async def test() -> None:
        seen: list[int] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                api_key, version, correlation_id, _ = await read_request(reader)
                seen.append(api_key)
                if api_key != 18:
                    writer.write(heartbeat_answer(correlation_id, version))
                elif len(seen) > 1:
                    writer.write(versions_answer(correlation_id, {12: (0, 4)}))
                else:
                    refusal = ApiVersionsResponse(error_code=35)
                    writer.write(encode_response(refusal, 4, correlation_id, flexible_header=False))

        server = TcpServer(serve)
        async with server:
            peer = peer_of(server.port, negotiates=True)
            with pytest.raises(PeerFailed, match="refuses ApiVersions 4 with 35"):
                await ask_heartbeat(peer)
            assert await ask_heartbeat(peer) == 27
            assert seen == [18, 18, 12]
            peer.close()

    run(test())
