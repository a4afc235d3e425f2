"""A connection of a replay: requests go out in order, and several may wait for their answers."""

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import Final

from odradek.broker.handlers import APIS
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import (
    FRAME_SIZE,
    encode_request,
    frame_size,
    read_response_header,
)
from odradek.protocol.schema import Message

CLIENT_ID: Final = "odradek-replay"
ANSWER_BYTES_MAX = 128 << 20


class Link:
    """A connection to a broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._task = asyncio.create_task(self._read())
        self._is_lost = False

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None) -> "Link":
        """Connect.  Raises: OSError."""
        name = None if tls is None else host
        return cls(*await asyncio.open_connection(host, port, ssl=tls, server_hostname=name))

    @property
    def is_idle(self) -> bool:
        """Whether it is open, and no answer is waited for."""
        return not self._is_lost and not self._waiting

    @property
    def is_lost(self) -> bool:
        """Whether the broker has closed it."""
        return self._is_lost

    def ask(self, frame: bytes) -> "asyncio.Future[bytes]":
        """Send a frame; its answer, which ends with ConnectionError if the connection does."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self._is_lost:
            answer.set_exception(ConnectionError("the broker has closed the connection"))
            return answer
        self._waiting.append(answer)
        self.tell(frame)
        return answer

    async def ask_own(self, request: Message, version: int) -> Message:
        """The answer to a request of the replay itself.  Raises: OSError, MalformedMessage."""
        frame = bytes(encode_request(request, version, 0, CLIENT_ID))[FRAME_SIZE.size :]
        return decoded(request.API_KEY, version, await self.ask(frame))

    def tell(self, frame: bytes) -> None:
        """Send a frame that has no answer."""
        if not self._is_lost:
            self._writer.write(FRAME_SIZE.pack(len(frame)) + frame)

    async def close(self) -> None:
        """Close it."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(FRAME_SIZE.size)
                size_bytes = frame_size(head, 0, ANSWER_BYTES_MAX)
                frame = await self._reader.readexactly(size_bytes)
                if not self._waiting:
                    break  # nobody asked
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(frame)
        except (OSError, EOFError, MalformedMessage):
            pass
        finally:
            self._is_lost = True
            self._writer.close()
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ConnectionError("the broker has closed the connection"))


def decoded(key: int, version: int, frame: bytes) -> Message:
    """The answer in a frame.  Raises: MalformedMessage."""
    api = APIS[key]
    _, position = read_response_header(frame, flexible=version >= api.flexible_response)
    response: Message
    response, _ = api.response.decode(frame, version, position)  # type: ignore[attr-defined]
    return response
