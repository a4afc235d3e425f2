"""Connections to a broker on which anything may be sent: one that blocks, one for coroutines."""

import asyncio
import itertools
import socket
import ssl
from typing import Any, Final, Self

from odradek.protocol.schema import Message

from .frames import SIZE, Response, answer_in, framed, request_bytes, response_class, size_bytes_in

TIMEOUT_S: Final = 30


class HungUp(ConnectionError):
    """The broker has closed the connection."""


class RawConnection:
    """A socket that sends whatever it is given and reads frames."""

    def __init__(self, host: str, port: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are.  Raises: HungUp, TimeoutError."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise HungUp from error

    def send_frame(self, body: bytes) -> None:
        """Send bytes as one frame.  Raises: HungUp, TimeoutError."""
        self.send(framed(body))

    def read_frame(self) -> bytes:
        """The next answer without its size.  Raises: HungUp, TimeoutError."""
        return self._exactly(size_bytes_in(self._exactly(SIZE.size)))

    def ask(self, body: bytes) -> bytes:
        """Send one request and return its answer after the correlation id."""
        self.send_frame(body)
        answer = self.read_frame()
        assert answer[:4] == body[4:8], "another request's answer"
        return answer[4:]

    def exchange(self, request: Message, version: int, *, client_id: str = "test") -> Any:
        """Send one request and return its answer.  Raises: HungUp, TimeoutError."""
        self.send_frame(request_bytes(request, version, client_id=client_id))
        return answer_in(self.read_frame(), response_class(type(request)), version)

    def wait_closed(self) -> bool:
        """Whether the broker closes without another byte; waits TIMEOUT_S for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            try:
                part = self.socket.recv(min(size_bytes - len(data), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise HungUp
            data += part
        return bytes(data)


class AsyncConnection:
    """The same for coroutines, with messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_ids = itertools.count(1)

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1", **options: Any) -> Self:
        """Connect to a broker."""
        return cls(*await asyncio.open_connection(host, port, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):  # the broker may have hung up first
            return

    def abort(self) -> None:
        """Hang up as a killed client does."""
        self.writer.transport.abort()

    # Bytes.

    def send_frame(self, frame: bytes) -> None:
        """Send bytes as one frame."""
        self.writer.write(framed(frame))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    async def read_frame(self) -> bytes:
        """The next answer without its size.  Raises: HungUp, TimeoutError."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await read_frame(self.reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise HungUp from None

    async def is_closed(self) -> bool:
        """Wait for the broker to hang up; True if it does so without another byte."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    # Messages.

    def send(self, request: Message, version: int, *, client_id: str = "test") -> int:
        """Send a request; return its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(request_bytes(request, version, correlation_id, client_id))
        return correlation_id

    async def read(self, kind: type[Response], version: int, correlation_id: int) -> Response:
        """The next answer, which must be the one to this request.  Raises: HungUp, TimeoutError."""
        return answer_in(await self.read_frame(), kind, version, correlation_id)

    async def ask(self, request: Message, version: int, *, client_id: str = "test") -> Any:
        """Send a request and wait for its answer.  Raises: HungUp, TimeoutError."""
        correlation_id = self.send(request, version, client_id=client_id)
        return await self.read(response_class(type(request)), version, correlation_id)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next request or answer without its size.  Raises: IncompleteReadError, OSError."""
    return await reader.readexactly(size_bytes_in(await reader.readexactly(SIZE.size)))
