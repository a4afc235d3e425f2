"""Listeners with TLS: handshakes, whom they count, what fails in them, and who the client is."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.server import StartupError
from odradek.ready_line import ready_line
from tests.support.awaiting import turns, until
from tests.support.certificates import Certificates
from tests.support.client import Client
from tests.support.frames import SIZE, framed, request_bytes
from tests.support.messages import batch_of, fetch_request, records_in

from ..requests import metadata
from ..running import HOST, RunningBroker
from .tls import VERSIONS, only, run, settings_of, trusting

Quiet = pytest.LogCaptureFixture


@pytest.mark.slow
def test_records_pass_and_their_client_is_anonymous(
    tmp_path: Path, portable: bool, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = await broker.client(ssl=trusting(certificates))
        await client.create_topic("t")
        batch = batch_of(*[b"x" * 1000] * 2000)  # more than a piece of TLS, and than one read
        assert await client.append("t", batch) == 0
        fetched = await client.fetch("t", 0)
        assert records_in(fetched.records) == [(offset, b"x" * 1000) for offset in range(2000)]
        assert str(only(broker).principal) == "User:ANONYMOUS"
        assert only(broker).host == HOST
        (told,) = (await client.ask(metadata(), 12)).brokers
        assert told.port == broker.port == broker.listeners[0].port

    large = settings_of(certificates, message_max_bytes="4000000")
    run(tmp_path, large, test, portable=portable)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_that_does_not_read_is_waited_for(
    version: ssl.TLSVersion, tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        context = trusting(certificates)
        context.minimum_version = context.maximum_version = version
        client = await broker.client(ssl=context, limit=1 << 16)
        await client.create_topic("t")
        batch = batch_of(*[b"x" * 1000] * 1000)
        await client.append("t", batch)
        connection = only(broker)
        asked = framed(request_bytes(fetch_request("t", 0), 12, client_id="test"))
        client.writer.write(asked * 40)
        await until(lambda: connection.is_sending, "it waits")
        await turns(200)
        assert connection.is_sending and not connection.is_reading
        assert len(connection._ciphertext) < 100_000, "it went on"  # type: ignore[attr-defined]
        for _ in range(40):
            (size_bytes,) = SIZE.unpack(await client.reader.readexactly(SIZE.size))
            assert len(batch) < size_bytes < len(batch) + 200
            await client.reader.readexactly(size_bytes)

    run(tmp_path, settings_of(certificates), test)


def test_handshakes_that_a_pause_interrupts_end_after_it(
    tmp_path: Path, certificates: Certificates
) -> None:
    """What is received into memory that all share must not stay there."""

    async def main(broker: RunningBroker) -> None:
        connections = broker.connections
        add = connections.handshakes.add
        context = trusting(certificates, certificates.alice)

        async def ask(steps: int) -> None:
            """Pause at the last of so many steps of the handshake, and ask meanwhile."""
            left = iter(range(steps - 1))

            def add_and_pause(call: Callable[[], None]) -> None:
                add(call)
                if next(left, None) is None:
                    connections.pause()

            connections.handshakes.add = add_and_pause  # type: ignore[method-assign]
            asking = asyncio.create_task(broker.client(ssl=context))
            await until(lambda: connections.is_paused, "it is paused")
            connections.handshakes.add = add  # type: ignore[method-assign]
            connection = next(reversed(connections._open))
            if steps > 1:  # the client has all that it needs
                client = await asking
                client.writer.write(framed(request_bytes(metadata(), 12, client_id="test")))
            for _ in range(200):
                await asyncio.sleep(0)
                assert connection.frames.buffered_bytes == 0, "it was read"
            connections.go_on()
            if steps == 1:
                client = await asking
                await client.ask(metadata(), 12)
            else:
                (size_bytes,) = SIZE.unpack(await client.reader.readexactly(SIZE.size))
                await client.reader.readexactly(size_bytes)
            assert str(connection.principal) == f"User:{SUBJECT}"

        await ask(1)
        await ask(2)

    run(tmp_path, settings_of(certificates, ssl_client_auth="required"), main)


SUBJECT = "CN=alice,OU=Readers,O=Example\\, Inc."


@pytest.mark.parametrize(
    ("auth", "rules", "with_certificate", "principal"),
    [
        ("required", "DEFAULT", True, f"User:{SUBJECT}"),
        ("requested", "DEFAULT", True, f"User:{SUBJECT}"),
        ("requested", "DEFAULT", False, "User:ANONYMOUS"),
        ("none", "DEFAULT", True, "User:ANONYMOUS"),
        ("required", "RULE:^CN=(.*?),.*$/$1/U", True, "User:ALICE"),
    ],
)
def test_a_certificate_names_the_client(
    auth: str,
    rules: str,
    with_certificate: bool,
    principal: str,
    tmp_path: Path,
    certificates: Certificates,
) -> None:
    async def test(broker: RunningBroker) -> None:
        shown = certificates.alice if with_certificate else None
        client = await broker.client(ssl=trusting(certificates, shown))
        await client.ask(metadata(), 12)
        assert str(only(broker).principal) == principal

    more = {"ssl_client_auth": auth, "ssl_principal_mapping_rules": rules}
    run(tmp_path, settings_of(certificates, **more), test)


async def is_let_in(broker: RunningBroker, context: ssl.SSLContext) -> bool:
    try:  # with TLS 1.3 a client learns only with its first answer that it is refused
        client = await broker.client(ssl=context)
        await client.ask(metadata(), 12)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False
    return True


def test_who_is_not_let_in_is_logged_once_and_forgotten(
    tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        caplog.clear()
        assert not await is_let_in(broker, trusting(certificates))
        assert not await is_let_in(broker, trusting(certificates, certificates.stranger))
        expired = certificates.authority.issue("expired", "/CN=expired", days=0)
        assert not await is_let_in(broker, trusting(certificates, expired))
        old = trusting(certificates, certificates.alice)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert not await is_let_in(broker, old)
        assert not await is_let_in(broker, trusting(certificates, certificates.alice)), "no rule"
        await until(lambda: not broker.connections.admission._per_host, "nobody is counted")
        assert len(broker.connections) == 0

    more = {
        "ssl_client_auth": "required",
        "ssl_enabled_protocols": "TLSv1.3",
        "ssl_principal_mapping_rules": "RULE:^CN=bob$/bob/",
    }
    run(tmp_path, settings_of(certificates, **more), test)
    lines = [line for line in caplog.messages if line.startswith("handshake failed")]
    assert [line.partition(" reason=")[2] for line in lines] == [
        "TLS: peer did not return a certificate",
        "the client's certificate is refused: unable to get local issuer certificate",
        "the client's certificate is refused: certificate has expired",
        "TLS: unsupported protocol",
        f"no rule of ssl.principal.mapping.rules fits {SUBJECT!r}",
    ]
    assert all(f"peer={HOST} listener=SSL" in line for line in lines)


def test_who_need_not_show_a_certificate_must_not_show_a_bad_one(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        assert await is_let_in(broker, trusting(certificates))
        assert not await is_let_in(broker, trusting(certificates, certificates.stranger))

    run(tmp_path, settings_of(certificates, ssl_client_auth="requested"), test)


@pytest.mark.parametrize(
    "sent",
    [b"\0\0\0\x17\0\x12\0\0\0\0\0\1\0\4test" + bytes(20), b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64],
    ids=["Kafka", "HTTP", "noise"],
)
def test_plain_bytes_are_told_from_tls(
    sent: bytes, tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        caplog.clear()
        client = await broker.client()
        client.send_bytes(sent)
        with contextlib.suppress(ConnectionResetError):
            await client.reader.read()
        await client.close()
        await until(lambda: len(broker.connections) == 0)

    run(tmp_path, settings_of(certificates), test)
    (line,) = [line for line in caplog.messages if line.startswith("handshake failed")]
    assert "this is not TLS" in line


def test_tls_is_told_from_plain_bytes(
    tmp_path: Path, portable: bool, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await Client.connect(broker.listeners[1].port, ssl=trusting(certificates))

    run(tmp_path, settings_of(certificates), test, portable=portable)
    (line,) = [line for line in caplog.messages if line.startswith("connection closed")]
    assert line.endswith("this looks like TLS, which this listener does not use")


def test_bad_frames_over_tls_are_no_tls(
    tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = await broker.client(ssl=trusting(certificates))
        client.writer.write(b"\xff" * 8)
        assert await client.reader.read() == b""

    run(tmp_path, settings_of(certificates), test)
    (line,) = [line for line in caplog.messages if line.startswith("connection closed")]
    assert "looks like TLS" not in line


def test_a_handshake_takes_a_slot_and_gives_it_back(
    tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        connections = broker.connections
        silent = socket.create_connection((HOST, broker.port))
        await until(lambda: len(connections) == 1)
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await broker.client(ssl=trusting(certificates))  # the second of its address
        silent.close()
        await until(lambda: len(connections) == 0)
        client = await broker.client(ssl=trusting(certificates))
        await client.ask(metadata(), 12)
        assert len(connections) == 1
        assert connections.admission._per_host == {HOST: 1}

    run(tmp_path, settings_of(certificates, max_connections_per_ip="1"), test)
    assert any("max.connections.per.ip=1" in line for line in caplog.messages)
    assert not any("handshake failed" in line for line in caplog.messages), "it has just gone"


def test_a_full_broker_leaves_clients_waiting_for_those_in_a_handshake(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        silent = socket.create_connection((HOST, broker.port))
        await until(lambda: len(broker.connections) == 1)
        waiting = asyncio.ensure_future(broker.client(ssl=trusting(certificates)))
        await turns(50)
        assert not waiting.done()
        assert len(broker.connections) == 1
        silent.close()
        await (await waiting).ask(metadata(), 12)

    run(tmp_path, settings_of(certificates, max_connections="1"), test)


def test_a_handshake_ends_with_its_time(
    tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = await broker.client()
        assert await client.reader.read() == b""
        await client.close()
        await until(lambda: len(broker.connections) == 0)

    settings = settings_of(certificates, odradek_authentication_timeout_ms="50")
    run(tmp_path, settings, test)
    assert any("the TLS handshake took longer than 50 ms" in line for line in caplog.messages)


def test_a_broker_stops_with_handshakes_and_connections_open(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        silent = socket.create_connection((HOST, broker.port))
        served = await Client.connect(broker.port, ssl=trusting(certificates))
        await served.ask(metadata(), 12)
        await until(lambda: len(broker.connections) == 2)
        async with asyncio.timeout(5):
            await broker.stop()
            assert len(broker.connections) == 0
            assert await served.reader.read() == b"", "it gets a farewell"
        silent.close()
        await served.close()

    run(tmp_path, settings_of(certificates), test)


def test_a_client_learns_why_it_is_refused(tmp_path: Path, certificates: Certificates) -> None:
    async def test(broker: RunningBroker) -> None:
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            await (await broker.client(ssl=trusting(certificates))).ask(metadata(), 12)

    run(tmp_path, settings_of(certificates, ssl_client_auth="required"), test)


def test_an_idle_client_is_closed(tmp_path: Path, certificates: Certificates) -> None:
    async def test(broker: RunningBroker) -> None:
        client = await broker.client(ssl=trusting(certificates))
        await client.ask(metadata(), 12)
        broker.clock.moved_ms += 700_000
        broker.connections.sweep()
        async with asyncio.timeout(5):
            assert await client.reader.read() == b""

    run(tmp_path, settings_of(certificates), test)


def test_a_broker_that_is_alone_needs_no_other_listener(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = await broker.client(ssl=trusting(certificates))
        assert [b.port for b in (await client.ask(metadata(), 12)).brokers] == [broker.port]
        (endpoint,) = broker.node.local.metadata.brokers[broker.broker_id].endpoints.values()
        assert endpoint.security_protocol == 1
        assert ready_line([broker], "d").startswith(f"odradek ready: SSL://{HOST}:{broker.port} ")

    run(tmp_path, settings_of(certificates, listeners=f"SSL://{HOST}:0"), test)


def test_a_broker_does_not_start_without_its_certificate(tmp_path: Path) -> None:
    async def test(broker: RunningBroker) -> None:
        raise AssertionError

    settings: dict[str, str] = {"listeners": f"SSL://{HOST}:0"}
    with pytest.raises(StartupError, match=r"the listener SSL has no certificate"):
        run(tmp_path, settings, test)
