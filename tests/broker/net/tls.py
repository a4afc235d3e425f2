"""A broker with a listener for TLS, and clients: usual ones, and one that is moved by hand."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

from odradek.broker.net.connection import Connection
from tests.support.certificates import Certificates, Issued
from tests.support.frames import SIZE, framed, request_bytes

from ..requests import metadata
from ..running import HOST, RunningBroker, running

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def settings_of(certificates: Certificates, **more: str) -> dict[str, str]:
    given = {
        "listeners": f"SSL://{HOST}:0,PLAINTEXT://{HOST}:0",
        "ssl.keystore.location": str(certificates.broker.store),
        "ssl.truststore.location": certificates.trust,
    }
    return given | {name.replace("_", "."): value for name, value in more.items()}


def trusting(certificates: Certificates, client: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.trust)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context


def handshake_of(certificates: Certificates, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = trusting(certificates, certificates.alice)
    context.minimum_version = context.maximum_version = version
    return context


def run(directory: Path, settings: dict[str, str], test: Any, *, portable: bool = False) -> None:
    """Run `test(broker)`; asyncio must have had nothing to complain about."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        async with running(directory, settings, portable=portable) as broker:
            await test(broker)

    asyncio.run(main())
    assert complaints == []


def only(broker: RunningBroker) -> Connection:
    (connection,) = broker.connections._open
    return connection


class ByHand:
    """A client whose TLS a test moves on byte by byte, over a socket of its own."""

    def __init__(self, broker: RunningBroker, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=HOST)
        self.broker = broker
        self.sent_bytes = 0

    async def open(self) -> None:
        """Connect, until the broker stops at the latest."""
        client = await self.broker.client()
        self.reader, self.writer = client.reader, client.writer

    async def send(self, piece_bytes: int = 1 << 20, end: int | None = None) -> bool:
        """Send what TLS has to send, in pieces; False after `end` bytes of the whole connection."""
        data = self.outgoing.read()
        for start in range(0, len(data), piece_bytes):
            piece = data[start : start + piece_bytes]
            if end is not None and self.sent_bytes + len(piece) > end:
                self.writer.write(piece[: end - self.sent_bytes])
                return False
            self.writer.write(piece)
            self.sent_bytes += len(piece)
            await self.writer.drain()
            if piece_bytes < len(data):
                await asyncio.sleep(0)
        return True

    async def shake_hands(self, piece_bytes: int = 1 << 20, end: int | None = None) -> bool:
        while True:
            try:
                self.tls.do_handshake()
                return await self.send(piece_bytes, end)
            except ssl.SSLWantReadError:
                if not await self.send(piece_bytes, end):
                    return False
                self.incoming.write(await self.reader.read(1 << 16) or b"")

    async def receive(self, size_bytes: int) -> bytes:
        found = b""
        while len(found) < size_bytes:
            try:
                found += self.tls.read(size_bytes - len(found))
            except ssl.SSLWantReadError:
                data = await self.reader.read(1 << 16)
                assert data, "the broker has hung up"
                self.incoming.write(data)
        return found

    async def ask(self, piece_bytes: int = 1 << 20) -> bytes:
        self.tls.write(framed(request_bytes(metadata(), 12, client_id="test")))
        await self.send(piece_bytes)
        (size_bytes,) = SIZE.unpack(await self.receive(SIZE.size))
        return await self.receive(size_bytes)
