"""Our side of a login between brokers, at Apache Kafka's broker and at ours."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.broker.config import Config
from odradek.broker.peers.peer import Peer, PeerFailed
from odradek.broker.peers.security import Security
from odradek.broker.runtime import Runtime, SystemClock
from odradek.broker.sasl import scram
from odradek.broker.sasl.broker_credentials import make_credentials
from odradek.broker.sasl.client import Credentials
from odradek.broker.sasl.token_login import file_source, unsecured_source
from odradek.broker.slow_reads import SlowReads
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from tests.support.tokens import signed
from tests.wire import oauthbearer_talk
from tests.wire.sasl_talk import (
    ITERATIONS,
    LASTS_MS,
    MECHANISMS,
    PLAIN,
    SALT,
    SETTINGS,
    USERS,
    make_sasl_server,
    port_of,
)
from tests.wire.servers import Server

HOST = "127.0.0.1"
DEADLINE_S = 30
APART_S = 0.05
"""How far apart requests are sent."""
MODULES = {PLAIN: "plain.PlainLoginModule"}


@pytest.fixture(
    scope="module", params=["odradek", pytest.param("kafka-3.9", marks=pytest.mark.java)]
)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    made = make_sasl_server(request.param, tmp_path_factory.mktemp("login"), SETTINGS)
    try:
        made.start()
        asyncio.run(add_users(port_of(made, "PLAINTEXT")))
        yield made
    finally:
        made.close()


async def add_users(port: int) -> None:
    upsertions = [
        ScramCredentialUpsertion(
            name="alice",
            mechanism=kind.number,
            iterations=ITERATIONS,
            salt=SALT,
            salted_password=scram.salted_password(
                kind, USERS["alice"], salt=SALT, iterations=ITERATIONS
            ),
        )
        for kind in scram.MECHANISMS.values()
    ]
    peer = Peer(HOST, port, client_id="test", timeout_ms=DEADLINE_S * 1000)
    answer = await peer.ask(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
    assert isinstance(answer, AlterUserScramCredentialsResponse)
    assert [result.error_code for result in answer.results] == [0]
    peer.close()


def credentials_of(mechanism: str, password: str) -> Credentials:
    """As the settings of a broker say them."""
    module = MODULES.get(mechanism, "scram.ScramLoginModule")
    config = Config(
        {
            "listeners": "SASL_PLAINTEXT://h:1",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": (
                f"org.apache.kafka.common.security.{module} required "
                f'username="alice" password="{password}";'
            ),
        }
    )
    given = config.listener_sasl("SASL_PLAINTEXT")
    assert given is not None
    return make_credentials(given, mechanism, Runtime.system())


def peer_of(server: Server, listener: str, mechanism: str, password: str) -> Peer:
    return peer_with(server, listener, credentials_of(mechanism, password))


def peer_with(server: Server, listener: str, credentials: Credentials) -> Peer:
    security = Security("SASL_PLAINTEXT", None, credentials)
    return Peer(
        HOST,
        port_of(server, listener),
        client_id="1",
        timeout_ms=DEADLINE_S * 1000,
        security=security,
    )


async def is_heard(peer: Peer) -> None:
    answer = await peer.ask(MetadataRequest(topics=[]), 12)
    assert isinstance(answer, MetadataResponse)
    assert len(answer.brokers) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_password_decides(server: Server, mechanism: str) -> None:
    async def test() -> None:
        peer = peer_of(server, "LOGIN", mechanism, USERS["alice"])
        await is_heard(peer)
        peer.close()
        wrong = peer_of(server, "LOGIN", mechanism, "other")
        with pytest.raises(PeerFailed, match="refuses the login of this broker as 'alice'"):
            await is_heard(wrong)

    asyncio.run(test())


@pytest.mark.slow
def test_a_login_is_renewed_on_its_connection(server: Server) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        peer = peer_of(server, "AGAIN", "SCRAM-SHA-512", USERS["alice"])
        await is_heard(peer)
        connection = peer._connection
        assert connection is not None
        until_s = loop.time() + 1.3 * LASTS_MS / 1000
        while loop.time() < until_s:
            await is_heard(peer)
            await asyncio.sleep(APART_S)
        assert peer._connection is connection
        peer.close()

    asyncio.run(test())


@pytest.fixture(
    scope="module", params=["odradek", pytest.param("kafka-3.9", marks=pytest.mark.java)]
)
def token_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("tokens")
    made = oauthbearer_talk.make_oauthbearer_server(
        request.param, directory, oauthbearer_talk.SETTINGS
    )
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_the_token_decides(token_server: Server, tmp_path: Path) -> None:
    async def test() -> None:
        unsecured = {"unsecuredLoginStringClaim_sub": "alice"}
        file, now_s = tmp_path / "token", int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 60, "iss": "https://issuer.test"}
        file.write_text(signed({**claims, "aud": "kafka"}))
        reads = SlowReads(Runtime.system())
        from_file = file_source(str(file)).credentials(reads)
        of_module = unsecured_source(unsecured, SystemClock().wall_ms).credentials(reads)
        for listener, credentials in (("LOGIN", of_module), ("SIGNED", from_file)):
            peer = peer_with(token_server, listener, credentials)
            await is_heard(peer)
            peer.close()
        file.write_text(signed({**claims, "aud": "x"}))
        refused = peer_with(token_server, "SIGNED", from_file)
        with pytest.raises(PeerFailed, match=r"refuses the login of this broker as 'alice': .*inv"):
            await is_heard(refused)

    asyncio.run(test())
