"""What clients of TLS send, byte by byte: handshakes that end early, goodbyes, broken records."""

import asyncio
import ssl
import tracemalloc
from pathlib import Path

import pytest

from tests.support.awaiting import until
from tests.support.certificates import Certificates
from tests.support.client import Client
from tests.support.frames import framed, request_bytes
from tests.support.messages import batch_of, fetch_request

from ..requests import metadata
from ..running import HOST, RunningBroker
from .tls import VERSIONS, ByHand, handshake_of, run, settings_of, trusting

Quiet = pytest.LogCaptureFixture


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_records_may_come_byte_by_byte(
    version: ssl.TLSVersion, tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = ByHand(broker, handshake_of(certificates, version))
        await client.open()
        await client.shake_hands(piece_bytes=1)
        for piece_bytes in (1, 7, 1 << 20):
            assert len(await client.ask(piece_bytes)) > 20
        client.writer.close()

    run(tmp_path, settings_of(certificates, ssl_client_auth="required"), test)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_clients_may_vanish_anywhere_in_the_handshake(
    version: ssl.TLSVersion, tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        whole = ByHand(broker, handshake_of(certificates, version))
        await whole.open()
        await whole.shake_hands()
        ends = range(0, whole.sent_bytes, 61)
        for end in ends:
            client = ByHand(broker, handshake_of(certificates, version))
            await client.open()
            assert not await client.shake_hands(end=end)
            if end % 2:
                client.writer.transport.abort()
            client.writer.close()
        await until(lambda: len(broker.connections) == 1, "only the whole one is left")
        assert len(await whole.ask()) > 20
        whole.writer.close()

    run(tmp_path, settings_of(certificates, ssl_client_auth="required"), test)
    assert not [line for line in caplog.messages if "failed" in line], "they have just gone"


def test_a_client_that_says_goodbye_is_answered_first(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = ByHand(broker, trusting(certificates))
        await client.open()
        await client.shake_hands()
        client.tls.write(framed(request_bytes(metadata(), 12, client_id="test")))
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        await client.send()
        async with asyncio.timeout(5):
            client.incoming.write(await client.reader.read())  # to the end
        client.writer.close()
        assert client.incoming.pending > 100, "the answer"

    run(tmp_path, settings_of(certificates), test)


@pytest.mark.slow
def test_goodbye_is_the_last_that_is_heard(tmp_path: Path, certificates: Certificates) -> None:
    """Requests that came before it, and wait for those before them, are answered."""

    async def test(broker: RunningBroker) -> None:
        plain = await Client.connect(broker.listeners[1].port)
        async with plain:
            await plain.create_topic("t")
            await plain.append("t", batch_of(*[b"x" * 1000] * 900))
        client = ByHand(broker, trusting(certificates))
        await client.open()
        await client.shake_hands()
        for _ in range(20):
            client.tls.write(framed(request_bytes(fetch_request("t", 0), 12, client_id="test")))
        with pytest.raises(ssl.SSLWantReadError):
            client.tls.unwrap()
        await client.send()
        async with asyncio.timeout(20):
            assert len(await client.reader.read()) > 20 * 900_000
        client.writer.close()

    run(tmp_path, settings_of(certificates), test)


@pytest.mark.parametrize("version", VERSIONS)
def test_broken_records_end_their_connection(
    version: ssl.TLSVersion, tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    async def test(broker: RunningBroker) -> None:
        client = ByHand(broker, handshake_of(certificates, version))
        await client.open()
        await client.shake_hands()
        await client.ask()
        client.writer.write(b"\x17\x03\x03\0\x40" + bytes(0x40))
        await client.reader.read()
        client.writer.close()
        await until(lambda: len(broker.connections) == 0)

    run(tmp_path, settings_of(certificates), test)
    (line,) = [line for line in caplog.messages if line.startswith("connection closed")]
    assert "reason=TLS: decryption failed or bad record mac" in line


def test_an_old_client_cannot_renegotiate(
    tmp_path: Path, certificates: Certificates, caplog: Quiet
) -> None:
    """R on a line of its own makes `openssl s_client` ask for it."""

    async def test(broker: RunningBroker) -> None:
        client = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-tls1_2", "-connect", f"{HOST}:{broker.port}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert client.stdin is not None and client.stdout is not None
        while b"Extended master secret" not in (line := await client.stdout.readline()):
            assert line, "it ended"
        client.stdin.write(b"R\n")
        told, _ = await client.communicate()
        assert b"no renegotiation" in told

    run(tmp_path, settings_of(certificates), test)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_connection_keeps_little_memory(
    version: ssl.TLSVersion, tmp_path: Path, certificates: Certificates
) -> None:
    """Of Python: what OpenSSL takes beside it is not seen here."""

    async def test(broker: RunningBroker) -> None:
        clients = []
        for number in range(60):
            if number == 10:
                tracemalloc.start()
            client = ByHand(broker, handshake_of(certificates, version))
            await client.open()
            await client.shake_hands()
            await client.ask()
            clients.append(client)
        filters = [tracemalloc.Filter(True, "*/broker/*")]
        taken = tracemalloc.take_snapshot().filter_traces(filters)
        tracemalloc.stop()
        size_bytes = sum(stat.size for stat in taken.statistics("filename"))
        for client in clients:
            client.writer.close()
        assert size_bytes / 50 < 20_000

    run(tmp_path, settings_of(certificates), test)
