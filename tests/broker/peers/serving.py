"""A broker made of one function, for questions of a `Peer`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from odradek.protocol.framing import encode_response, read_request_start
from odradek.protocol.messages.k12_heartbeat import HeartbeatResponse
from tests.support.awaiting import turns
from tests.support.connections import read_frame

HOST = "127.0.0.1"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A broker made of one function, which is called for each connection."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.connections: list[asyncio.StreamWriter] = []
        self.port = 0

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._serve(reader, writer)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._on_connection, HOST, self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            await turns()  # until those that came just now are among the others
            for writer in self.connections:
                writer.transport.abort()


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int, bytes]:
    """API key, version, correlation id, and the frame."""
    frame = await read_frame(reader)
    return (*read_request_start(frame), frame)


async def answer_heartbeats(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        _, version, correlation_id, _ = await read_request(reader)
        writer.write(heartbeat_answer(correlation_id, version))


def heartbeat_answer(correlation_id: int, version: int = 4) -> bytes:
    response = HeartbeatResponse(error_code=27)
    flexible = version in HeartbeatResponse.FLEXIBLE
    return bytes(encode_response(response, version, correlation_id, flexible_header=flexible))
