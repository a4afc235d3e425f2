"""A leader that is none: a TCP server that answers a follower's questions as a test wants it to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.broker.member.metadata import Address, BrokerInfo
from odradek.protocol.framing import (
    encode_response,
    read_client_id,
    read_request_start,
)
from odradek.protocol.messages.k01_fetch import FetchRequest
from odradek.protocol.messages.k02_list_offsets import ListOffsetsRequest
from odradek.protocol.schema import Message
from tests.broker.running import HOST
from tests.support.awaiting import turns
from tests.support.connections import read_frame

KINDS: Final[dict[int, type[Message]]] = {1: FetchRequest, 2: ListOffsetsRequest}

Answer = Callable[[Message], "Awaitable[Message | bytes | None] | Message | bytes | None"]
"""A response; bytes that are sent as they are, with the frame's size; None: hang up."""
Garble = Callable[[bytes], bytes]


class FakeLeader:
    """Started and stopped by who uses it."""

    def __init__(self, broker_id: int, answer: Answer) -> None:
        self.broker_id = broker_id
        self.answer = answer
        self.garble: Garble = bytes
        """What is done to an encoded frame before it is sent."""
        self.asked: list[Message] = []
        self.connection_count = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await turns()  # until those that came just now are among the others
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def info(self) -> BrokerInfo:
        """As the brokers are told of it."""
        return BrokerInfo(self.broker_id, None, {"PLAINTEXT": Address(HOST, self.port)})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        self._writers.append(writer)
        try:
            while (out := await self._respond(reader)) is not None:
                writer.write(out)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the last one is the test's end
        writer.transport.abort()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes | None:
        frame = memoryview(await read_frame(reader))
        api_key, version, correlation_id = read_request_start(frame)
        kind = KINDS[api_key]
        flexible = version in kind.FLEXIBLE
        _, position = read_client_id(frame, flexible=flexible)
        request, _ = kind.decode(frame, version, position)
        self.asked.append(request)
        answer = self.answer(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer is None or isinstance(answer, bytes):
            return answer
        out = encode_response(answer, version, correlation_id, flexible_header=flexible)
        return self.garble(bytes(out))
