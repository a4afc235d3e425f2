"""Logins to other brokers: in which order, when again, and with whom this broker does not speak."""

import asyncio
from collections.abc import Callable

import pytest

from odradek.broker.peers.peer import Peer, PeerFailed
from odradek.broker.peers.security import Security
from odradek.broker.sasl import scram
from odradek.broker.sasl.client import ClientMechanism, Credentials
from odradek.broker.sasl.client_plain import PlainClient
from odradek.broker.sasl.client_scram import Password, ScramClient
from odradek.protocol.framing import encode_response, read_client_id
from odradek.protocol.messages.k12_heartbeat import HeartbeatResponse
from odradek.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.schema import Message
from tests.support.awaiting import pass_over
from tests.support.tcp_server import HOST, TcpServer

from .serving import read_request
from .test_peer import ask_heartbeat, run


def credentials_of(mechanism: str, begin: Callable[[], ClientMechanism]) -> Credentials:
    async def begin_later() -> ClientMechanism:
        return begin()

    return Credentials(mechanism, "alice", begin_later)


ALICE = credentials_of("PLAIN", lambda: PlainClient("alice", "secret"))
GOOD = b"\0alice\0secret"
BAD = SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: no")
LASTS_MS = 1_000
"""How long the login of a session with an end is good for."""
Answer = Callable[[bytes], SaslAuthenticateResponse]


def let_in(token: bytes) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse() if token == GOOD else BAD


class LoginServer(TcpServer):
    """Answers logins by a function of the token, and heartbeats; notes the API keys."""

    def __init__(self, answer: Answer, handshake: SaslHandshakeResponse | None = None) -> None:
        super().__init__(self._talk)
        self.asked: list[list[int]] = []
        """By connection."""
        self._answer = answer
        self._handshake = handshake or SaslHandshakeResponse(mechanisms=["PLAIN"])

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: list[int] = []
        self.asked.append(asked)
        while True:
            api_key, version, correlation_id, frame = await read_request(reader)
            asked.append(api_key)
            answer: Message
            if api_key == 17:
                assert version == 1
                _, position = read_client_id(frame, flexible=False)
                wanted, _ = SaslHandshakeRequest.decode(frame, version, position)
                assert wanted.mechanism in ("PLAIN", "SCRAM-SHA-256")
                answer = self._handshake
            elif api_key == 36:
                assert version == 2
                _, position = read_client_id(frame, flexible=True)
                token, _ = SaslAuthenticateRequest.decode(frame, version, position)
                answer = self._answer(bytes(token.auth_bytes))
            else:
                answer = HeartbeatResponse(error_code=27)
            flexible = version in type(answer).FLEXIBLE
            writer.write(encode_response(answer, version, correlation_id, flexible_header=flexible))


def peer_of(
    server: TcpServer, credentials: Credentials = ALICE, *, timeout_ms: int = 10_000
) -> Peer:
    security = Security("SASL_PLAINTEXT", None, credentials)
    return Peer(HOST, server.port, client_id="7", timeout_ms=timeout_ms, security=security)


def test_one_login_for_each_connection() -> None:
    async def test() -> None:
        server = LoginServer(let_in)
        async with server:
            peer = peer_of(server)
            for _ in range(2):
                for _ in range(3):
                    assert await ask_heartbeat(peer) == 27
                peer.close()
        assert server.asked == [[17, 36, 12, 12, 12]] * 2

    run(test())


def test_a_refused_login() -> None:
    """Nothing is asked on such a connection, and the next attempt makes another."""

    async def test() -> None:
        server = LoginServer(lambda token: BAD)
        async with server:
            peer = peer_of(server)
            for _ in range(2):
                with pytest.raises(PeerFailed) as failed:
                    await ask_heartbeat(peer)
                assert str(failed.value) == (
                    f"{HOST}:{server.port}: refuses the login of this broker as 'alice': "
                    "Authentication failed: no"
                )
        assert server.asked == [[17, 36], [17, 36]]

    run(test())


def test_a_mechanism_that_is_not_offered() -> None:
    refusal = SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256", "OAUTHBEARER"])

    async def test() -> None:
        server = LoginServer(let_in, refusal)
        async with server:
            reason = "has no login by PLAIN; it offers SCRAM-SHA-256, OAUTHBEARER"
            with pytest.raises(PeerFailed, match=reason):
                await ask_heartbeat(peer_of(server))
        assert server.asked == [[17]]

    run(test())


def test_a_server_that_does_not_know_the_password() -> None:
    """A proof is not shown to it again as a request: the connection ends."""
    password = Password(scram.SHA_256, "alice", "secret")
    credentials = credentials_of("SCRAM-SHA-256", lambda: ScramClient(password, lambda: "nonce"))

    def pretend(token: bytes) -> SaslAuthenticateResponse:
        is_first = token.startswith(b"n,,")
        answer = b"r=nonceserver,s=c2FsdA==,i=4096" if is_first else b"v=AAAA"
        return SaslAuthenticateResponse(auth_bytes=answer)

    async def test() -> None:
        server = LoginServer(pretend)
        async with server:
            with pytest.raises(PeerFailed, match="cannot prove that it knows this user"):
                await ask_heartbeat(peer_of(server, credentials))
        assert server.asked == [[17, 36, 36]]

    run(test())


@pytest.mark.slow
def test_a_server_that_never_answers_a_login() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        server = TcpServer(silent)
        async with server:
            with pytest.raises(PeerFailed, match="did not answer in time"):
                await ask_heartbeat(peer_of(server, timeout_ms=100))

    run(test())


@pytest.mark.parametrize(("lifetime_ms", "logins"), [(0, 1), (LASTS_MS, 3), (60 * LASTS_MS, 1)])
def test_a_login_is_renewed_before_it_ends(lifetime_ms: int, logins: int) -> None:
    """On the same connection, before the next request."""

    async def test() -> None:
        server = LoginServer(
            lambda token: SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
        )
        async with server:
            peer = peer_of(server)
            for _ in range(3):
                assert await ask_heartbeat(peer) == 27
                await pass_over(LASTS_MS / 1000)
        (asked,) = server.asked
        assert asked.count(17) == asked.count(36) == logins
        assert asked[:3] == [17, 36, 12]
        assert asked.count(12) == 3

    run(test())


def test_a_renewal_that_is_refused_ends_the_connection() -> None:
    answers = [
        SaslAuthenticateResponse(session_lifetime_ms=LASTS_MS),
        BAD,
        SaslAuthenticateResponse(),
    ]

    async def test() -> None:
        server = LoginServer(lambda token: answers.pop(0))
        async with server:
            peer = peer_of(server)
            assert await ask_heartbeat(peer) == 27
            await pass_over(LASTS_MS / 1000)
            with pytest.raises(PeerFailed, match="refuses the login"):
                await ask_heartbeat(peer)
            assert await ask_heartbeat(peer) == 27
        assert server.asked == [[17, 36, 12, 17, 36], [17, 36, 12]]

    run(test())
