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
from tests.support.connections import read_frame
from tests.support.tcp_server import HOST, TcpServer

KINDS: Final[dict[int, type[Message]]] = {1: FetchRequest, 2: ListOffsetsRequest}

Answer = Callable[[Message], "Awaitable[Message | bytes | None] | Message | bytes | None"]
"""A response; bytes that are sent as they are, with the frame's size; None: hang up."""
Garble = Callable[[bytes], bytes]


class FakeLeader(TcpServer):
    """Started and stopped by who uses it."""

    def __init__(self, broker_id: int, answer: Answer) -> None:
        super().__init__(self._talk)
        self.broker_id = broker_id
        self.answer = answer
        self.garble: Garble = bytes
        """What is done to an encoded frame before it is sent."""
        self.asked: list[Message] = []

    @property
    def info(self) -> BrokerInfo:
        """As the brokers are told of it."""
        return BrokerInfo(self.broker_id, None, {"PLAINTEXT": Address(HOST, self.port)})

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (out := await self._respond(reader)) is not None:
            writer.write(out)
            await writer.drain()

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
