"""Connections to brokers with TLS: what is checked before they can be used, and how they fail."""

import asyncio
import contextlib
import logging
import socket
import ssl
from pathlib import Path

import pytest

from odradek.broker.config import Config, ConfigError
from odradek.broker.peers.peer import Peer, PeerFailed, Setup
from odradek.broker.peers.security import Security, load_securities
from odradek.broker.runtime import Runtime
from odradek.broker.tls.client import make_client_context
from odradek.broker.tls.context import make_tls
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from tests.broker.running import RunningBroker, running
from tests.support.awaiting import until
from tests.support.certificates import Certificates, Issued
from tests.support.messages import batch_of, fetch_request, records_in
from tests.support.tcp_server import HOST, TcpServer

NO_HOST = {"ssl.endpoint.identification.algorithm": ""}


def settings_of(certificates: Certificates, own: Issued, **more: str) -> dict[str, str]:
    given = {
        "listeners": f"SSL://{HOST}:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.location": str(own.store),
        "ssl.truststore.location": certificates.trust,
    }
    return given | {name.replace("_", "."): value for name, value in more.items()}


def context_of(settings: dict[str, str]) -> ssl.SSLContext:
    given = Config(settings).listener_tls("SSL")
    assert given is not None
    return make_client_context(given)


def peer_of(port: int, settings: dict[str, str], *, timeout_ms: int = 10_000) -> Peer:
    security = Security("SSL", context_of(settings))
    setup = Setup(timeout_ms=timeout_ms, timeout_max_ms=timeout_ms)
    return Peer(HOST, port, client_id="7", timeout_ms=10_000, setup=setup, security=security)


async def fails(peer: Peer, match: str) -> None:
    with pytest.raises(PeerFailed, match=match):
        await peer.ask(MetadataRequest(topics=[]), 12)
    peer.close()


@pytest.mark.slow
def test_records_pass_and_the_other_broker_sees_our_name(
    tmp_path: Path, certificates: Certificates
) -> None:
    settings = settings_of(
        certificates, certificates.broker, ssl_client_auth="required", message_max_bytes="9000000"
    )

    async def test() -> None:
        async with running(tmp_path, settings) as broker:
            trusting = ssl.create_default_context(cafile=certificates.trust)
            trusting.load_cert_chain(certificates.alice.certificate, certificates.alice.key)
            client = await broker.client(ssl=trusting)
            await client.create_topic("t")
            values = [bytes([each % 251]) * 4000 for each in range(1000)]
            await client.append("t", batch_of(*values))
            peer = peer_of(broker.port, settings)
            for _ in range(3):
                answer = await peer.ask(fetch_request("t", 0), 12)
                assert isinstance(answer, FetchResponse)
                records = records_in(answer.responses[0].partitions[0].records)
                assert [value for _, value in records] == values
            assert principals(broker) == {
                "User:CN=alice,OU=Readers,O=Example\\, Inc.",
                "User:CN=broker",
            }
            peer.close()

    asyncio.run(test())


def principals(broker: RunningBroker) -> set[str]:
    return {str(connection.principal) for connection in broker.connections._open}


@pytest.mark.parametrize("host", ["DNS:elsewhere.example", "IP:127.0.0.2"])
def test_the_certificate_must_be_for_the_host(
    host: str, tmp_path: Path, certificates: Certificates
) -> None:
    other = certificates.authority.issue("elsewhere", "/CN=elsewhere", host=host)
    settings = settings_of(certificates, other)

    async def test() -> None:
        async with running(tmp_path, settings) as broker:
            await fails(peer_of(broker.port, settings), r"127\.0\.0\.1:\d+: .*IP address mismatch")
            peer = peer_of(broker.port, settings | NO_HOST)
            assert isinstance(await peer.ask(MetadataRequest(topics=[]), 12), MetadataResponse)
            peer.close()

    asyncio.run(test())


def test_a_certificate_that_nobody_trusts(tmp_path: Path, certificates: Certificates) -> None:
    """Even if the host's name is not checked."""
    settings = settings_of(certificates, certificates.stranger) | NO_HOST

    async def test() -> None:
        async with running(tmp_path, settings) as broker:
            peer = peer_of(broker.port, settings)
            await fails(peer, r"certificate is refused \(unable to get local issuer certificate\)")
            await until(lambda: not broker.connections._open, "it is closed")

    asyncio.run(test())


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("TLSv1.2", r"TLS failed \(tlsv1 alert unknown ca\)"),
        ("TLSv1.3", r"TLS failed \(tlsv1 alert unknown ca\)|Connection reset"),
    ],
)
def test_ours_is_refused(version: str, reason: str, certificates: Certificates) -> None:
    """In TLS 1.3 only after our own part of the handshake, when the request is under way."""
    served = settings_of(
        certificates,
        certificates.broker,
        ssl_client_auth="required",
        ssl_enabled_protocols=version,
    )
    ours = settings_of(certificates, certificates.stranger)
    given = Config(served).listener_tls("SSL")
    assert given is not None
    context = make_tls(given).context

    def refuse(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        with accepted, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(accepted, server_side=True)

    async def test() -> None:
        with socket.create_server((HOST, 0)) as listening:
            refusing = asyncio.create_task(asyncio.to_thread(refuse, listening))
            peer = peer_of(listening.getsockname()[1], ours)
            await fails(peer, reason)
            await refusing

    asyncio.run(test())


def test_who_does_not_speak_tls(tmp_path: Path, certificates: Certificates) -> None:
    settings = settings_of(certificates, certificates.broker)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example\r\n" * 10)
        await reader.read(1 << 16)

    async def test() -> None:
        async with TcpServer(speak) as server:
            await fails(peer_of(server.port, settings), "the broker does not speak TLS there")
        async with running(tmp_path) as broker:  # a listener without TLS
            await fails(peer_of(broker.port, settings), "hung up during the TLS handshake")

    asyncio.run(test())


@pytest.mark.slow
def test_a_handshake_has_a_deadline(certificates: Certificates) -> None:
    """Nothing is left of a broker that accepts and then says nothing."""
    settings = settings_of(certificates, certificates.broker)
    ended = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        ended.set()

    async def test() -> None:
        async with TcpServer(listen) as server:
            await fails(peer_of(server.port, settings, timeout_ms=200), "it took too long")
            await until(ended.is_set, "the connection is closed")

    asyncio.run(test())


def test_closing_ends_a_handshake(certificates: Certificates) -> None:
    settings = settings_of(certificates, certificates.broker)

    async def test() -> None:
        with socket.create_server((HOST, 0)) as silent:
            peer = peer_of(silent.getsockname()[1], settings)
            asking = asyncio.create_task(peer.ask(MetadataRequest(topics=[]), 12))
            accepted, _ = await asyncio.to_thread(silent.accept)
            with accepted:
                peer.close()
                with pytest.raises(PeerFailed, match="closed"):
                    await asking

    asyncio.run(test())


# What is checked when the broker starts.


def load(settings: dict[str, str]) -> None:
    """As a broker of a cluster does."""
    config = Config({"zookeeper.connect": "zk:2181", **settings})
    given = config.listener_tls("SSL")
    assert given is not None
    load_securities(config, {"SSL": make_tls(given)}, Runtime.system())


def test_stores_that_fit(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    load(settings_of(certificates, certificates.broker, ssl_client_auth="required"))
    assert not caplog.records


def test_a_broker_must_trust_itself(certificates: Certificates) -> None:
    settings = settings_of(certificates, certificates.stranger)
    with pytest.raises(ConfigError) as error:
        load(settings)
    assert str(error.value) == (
        "the listener SSL is for brokers, and they would refuse each other: the broker's "
        "certificate is refused (unable to get local issuer certificate); the certificate of "
        "ssl.keystore.location must be one that ssl.truststore.location trusts, for servers and "
        "clients"
    )
    del settings["ssl.truststore.location"]  # then only the system's authorities are trusted
    with pytest.raises(ConfigError, match=r"must be one that ssl\.truststore\.location trusts"):
        load(settings)


def test_a_broker_that_is_alone_need_not(tmp_path: Path, certificates: Certificates) -> None:
    async def test() -> None:
        async with running(tmp_path, settings_of(certificates, certificates.stranger)):
            pass

    asyncio.run(test())


def test_the_advertised_host_is_missing_in_the_certificate(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(
        certificates, certificates.broker, advertised_listeners="SSL://elsewhere.example:9093"
    )
    with caplog.at_level(logging.WARNING):
        load(settings | NO_HOST)
        assert not caplog.records
        load(settings)
    (line,) = caplog.messages
    assert line.startswith("other brokers will refuse this one listener=SSL reason=the broker's")
    assert "'elsewhere.example'" in line


def test_each_listener_has_its_own_stores(certificates: Certificates) -> None:
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:0,IN://{HOST}:0,OUT://{HOST}:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SSL,OUT:SSL",
        "control.plane.listener.name": "IN",
        "listener.name.in.ssl.keystore.location": str(certificates.broker.store),
        "listener.name.in.ssl.truststore.location": certificates.trust,
        "ssl.keystore.location": str(certificates.stranger.store),
        "zookeeper.connect": "zk:2181",
    }
    config = Config(settings)
    given = config.listener_tls("IN")
    assert given is not None
    securities = load_securities(config, {"IN": make_tls(given)}, Runtime.system())
    assert {name: each.protocol for name, each in securities.items()} == {
        "PLAINTEXT": "PLAINTEXT",
        "IN": "SSL",
    }
    assert securities["PLAINTEXT"].context is None
    assert securities["IN"].context is not None
