"""Questions to another broker over a link that is cut or slow."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from odradek.broker.network.conditions import GOOD, Condition
from odradek.broker.network.network import Link
from odradek.broker.peers.peer import Peer, PeerFailed, Setup
from odradek.broker.peers.security import Security
from odradek.protocol.framing import encode_response
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.peers.serving import answer_heartbeats, read_request
from tests.support.tcp_server import HOST, TcpServer

CUT = Condition(is_cut=True)


@contextlib.asynccontextmanager
async def peer_over(
    link: Link, server: TcpServer, *, timeout_ms: int = 10_000
) -> AsyncIterator[Peer]:
    async with server:
        setup = Setup(timeout_ms=timeout_ms)
        peer = Peer(HOST, server.port, client_id="7", timeout_ms=timeout_ms, setup=setup, link=link)
        yield peer
        peer.close()


@asynchronous
async def test_what_is_asked_over_a_cut_link_arrives_once_it_is_mended() -> None:
    link, server = Link(GOOD), TcpServer(answer_heartbeats)
    async with peer_over(link, server) as peer:
        await peer.ask(HeartbeatRequest(), 4)
        link.become(CUT)
        asking = asyncio.create_task(peer.ask(HeartbeatRequest(), 4))
        done, _ = await asyncio.wait([asking], timeout=0.05)
        assert not done
        link.become(GOOD)
        await asking
        assert len(server.connections) == 1


@asynchronous
async def test_an_answer_over_a_cut_link_is_not_read_before_it_is_mended() -> None:
    asked, may_answer, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, version, correlation_id, _ = await read_request(reader)
        asked.set()
        await may_answer.wait()
        answer = SaslAuthenticateResponse(auth_bytes=bytes(100_000))
        writer.write(encode_response(answer, version, correlation_id, flexible_header=True))
        await writer.drain()
        answered.set()
        await reader.read()

    link = Link(GOOD)
    async with peer_over(link, TcpServer(serve)) as peer:
        asking = asyncio.create_task(peer.ask(SaslAuthenticateRequest(), 2))
        await asked.wait()
        link.become(CUT)
        may_answer.set()
        await answered.wait()
        done, _ = await asyncio.wait([asking], timeout=0.05)
        assert not done
        link.become(GOOD)
        assert len((await asking).encode(2)) > 100_000


@asynchronous
async def test_a_question_over_a_cut_link_fails_at_its_timeout_and_never_arrives() -> None:
    link, server = Link(GOOD), TcpServer(answer_heartbeats)
    async with peer_over(link, server, timeout_ms=100) as peer:
        await peer.ask(HeartbeatRequest(), 4)
        link.become(CUT)
        with pytest.raises(PeerFailed, match="did not answer in time"):
            await peer.ask(HeartbeatRequest(), 4)
        with pytest.raises(PeerFailed, match=r"it took too long|in time"):
            await peer.ask(HeartbeatRequest(), 4)
        assert len(server.connections) == 1  # no other one is made
        link.become(GOOD)
        await peer.ask(HeartbeatRequest(), 4)
        assert len(server.connections) == 2
        assert len(link._users) == 1  # that of the connection that is open


@asynchronous
async def test_each_round_trip_takes_longer_by_the_delay() -> None:
    link = Link(Condition(delay_s=0.1))
    async with peer_over(link, TcpServer(answer_heartbeats)) as peer:
        begun_s = time.monotonic()
        await peer.ask(HeartbeatRequest(), 4)
        assert time.monotonic() - begun_s >= 0.2  # to connect, and to ask


@asynchronous
async def test_what_waits_for_a_delay_goes_on_when_the_link_is_mended() -> None:
    link = Link(GOOD)
    async with peer_over(link, TcpServer(answer_heartbeats)) as peer:
        await peer.ask(HeartbeatRequest(), 4)
        link.become(Condition(delay_s=3600))
        asking = asyncio.create_task(peer.ask(HeartbeatRequest(), 4))
        await asyncio.sleep(0)
        link.become(GOOD)
        await asking  # it does not reach its timeout


@pytest.mark.slow
@asynchronous
async def test_large_questions_and_answers_take_their_time() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, version, correlation_id, _ = await read_request(reader)
            answer = SaslAuthenticateResponse(auth_bytes=bytes(100_000))
            writer.write(encode_response(answer, version, correlation_id, flexible_header=True))

    link = Link(GOOD)
    async with peer_over(link, TcpServer(serve)) as peer:
        small, large = SaslAuthenticateRequest(), SaslAuthenticateRequest(auth_bytes=bytes(100_000))
        await peer.ask(small, 2)
        link.become(Condition(bytes_per_s=500_000))
        begun_s = time.monotonic()
        await peer.ask(small, 2)
        await peer.ask(large, 2)
        # 3 times 0.2 s; the last piece of an answer is not waited for.
        assert time.monotonic() - begun_s >= 0.5


@asynchronous
async def test_a_connection_that_ends_over_a_cut_link_is_forgotten() -> None:
    link, server = Link(GOOD), TcpServer(answer_heartbeats)
    async with peer_over(link, server) as peer:
        await peer.ask(HeartbeatRequest(), 4)
        link.become(CUT)
        asking = asyncio.create_task(peer.ask(HeartbeatRequest(), 4))
        await asyncio.sleep(0)
        peer.close()
        with pytest.raises(PeerFailed, match="closed"):
            await asking
        assert not link._users


@asynchronous
async def test_a_handshake_of_tls_waits_for_the_link() -> None:
    link, server = Link(CUT), TcpServer(answer_heartbeats)
    async with server:
        security = Security(context=ssl.create_default_context())
        setup = Setup(timeout_ms=50)
        peer = Peer(
            HOST,
            server.port,
            client_id="7",
            timeout_ms=10_000,
            setup=setup,
            security=security,
            link=link,
        )
        with pytest.raises(PeerFailed, match="took too long"):
            await peer.ask(HeartbeatRequest(), 4)
        assert not server.connections
        assert not link._users
