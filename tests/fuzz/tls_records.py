"""Records of TLS in orders in which no client sends them: repeated, cut, mixed with noise."""

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.support.frames import framed

HOST: Final = "127.0.0.1"
WAITS_S: Final = 0.2
"""For the broker to hang up; then the client does, as a handshake may go on for long."""
TOGETHER: Final = 16
TYPES: Final = {"change": 20, "alert": 21, "handshake": 22, "data": 23, "heartbeat": 24}
READ_BYTES: Final = 1 << 16
AFTER_HANDSHAKE: Final = 0.3


class RecordSender:
    """Opens so many connections, and sends records in random orders on each of them."""

    def __init__(self, seed: int, port: int, count: int, context: ssl.SSLContext) -> None:
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._port = port
        self._count = count
        self._context = context

    async def run(self) -> None:
        """Send everything."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(TOGETHER):
                tasks.create_task(self._send_some())

    async def _send_some(self) -> None:
        while self.counts["orders"] < self._count:
            self.counts["orders"] += 1
            reader, writer = await asyncio.open_connection(HOST, self._port)
            try:
                async with asyncio.timeout(WAITS_S):
                    await self._send(reader, writer)
                    while await reader.read(READ_BYTES):
                        pass
                self.counts["hang-ups"] += 1
            except ConnectionError:
                self.counts["hang-ups"] += 1
            except TimeoutError:
                self.counts["waits"] += 1
            finally:
                writer.transport.abort()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send an order of records, sometimes after a handshake that is right."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_hostname=HOST)
        if self._random.random() < AFTER_HANDSHAKE:
            await shake_hands(tls, incoming, outgoing, reader, writer)
            self.counts["handshakes"] += 1
            tls.write(framed(self._random.randbytes(20)))
            right = outgoing.read()
        else:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                right = outgoing.read()  # the hello
        records = [self._record(right) for _ in range(self._random.choice((1, 2, 3, 8)))]
        if self._random.random() < 0.5:
            records.insert(self._random.randrange(len(records) + 1), right)
        writer.write(b"".join(records))

    def _record(self, right: bytes) -> bytes:
        choice = self._random
        makers: tuple[Callable[[], bytes], ...] = (
            lambda: right,
            lambda: right[: choice.randrange(len(right))],
            lambda: flipped(right, choice),
            lambda: split(right, choice),
            lambda: record(choice.choice(list(TYPES.values())), choice.randbytes(40)),
            lambda: record(TYPES["handshake"], bytes((choice.randrange(26), 0, 0, 4)) + bytes(4)),
            lambda: record(TYPES["alert"], bytes((choice.randrange(3), choice.randrange(120)))),
            lambda: record(TYPES["change"], b"\1"),
            lambda: record(TYPES["data"], b""),
            lambda: choice.randbytes(choice.choice((1, 5, 100))),
        )
        return choice.choice(makers)()


def record(kind: int, content: bytes) -> bytes:
    """A record in clear text, of TLS 1.2 as all say."""
    return bytes((kind, 3, 3)) + len(content).to_bytes(2, "big") + content


def flipped(data: bytes, choice: random.Random) -> bytes:
    """The same with another bit."""
    changed = bytearray(data)
    changed[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
    return bytes(changed)


def split(data: bytes, choice: random.Random) -> bytes:
    """What one record contains, in records of a few bytes."""
    kind, content, size_bytes = data[0], data[5:], choice.choice((1, 16, 200))
    starts = range(0, len(content), size_bytes)
    return b"".join(record(kind, content[start : start + size_bytes]) for start in starts)


async def shake_hands(
    tls: ssl.SSLObject,
    incoming: ssl.MemoryBIO,
    outgoing: ssl.MemoryBIO,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Do the whole handshake.  Raises: ConnectionError, ssl.SSLError."""
    while True:
        try:
            tls.do_handshake()
            return
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            received = await reader.read(READ_BYTES)
            if not received:
                raise ConnectionError from None
            incoming.write(received)
        finally:
            writer.write(outgoing.read())
