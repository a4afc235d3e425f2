"""A blocking connection to a broker, for the requests of the fixture itself."""

import socket
import struct
from types import TracebackType
from typing import Final, Self, TypeVar

from odradek.protocol.schema import Message

from .access import ClientAccess
from .ready import Address

CLIENT_ID: Final = b"odradek.testing"
HEADER: Final = struct.Struct(">hhih")  # key, version, correlation id, size of the client id
NO_TAGGED_FIELDS: Final = b"\0"
CORRELATION_ID_BYTES: Final = 4
FRAME_SIZE: Final = struct.Struct(">i")

Response = TypeVar("Response", bound=Message)


class Connection:
    """A connection, with TLS and a login if `access` says so."""

    def __init__(self, address: Address, access: ClientAccess, *, timeout_s: float) -> None:
        """Raises: OSError."""
        sock = socket.create_connection(address, timeout=timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if (context := access.tls_context()) is not None:
                sock = context.wrap_socket(sock, server_hostname=address[0])
        except BaseException:
            sock.close()
            raise
        self._sock = sock
        if access.mechanism is not None:
            from .login import log_in  # only where it is needed

            try:
                log_in(self, access)
            except BaseException:
                sock.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sock.close()

    def ask(self, request: Message, version: int, response: type[Response]) -> Response:
        """Send a request, and return the answer.  Raises: OSError."""
        tags = NO_TAGGED_FIELDS if version in request.FLEXIBLE else b""
        header = HEADER.pack(request.API_KEY, version, 0, len(CLIENT_ID)) + CLIENT_ID + tags
        body = header + request.encode(version)
        self._sock.sendall(FRAME_SIZE.pack(len(body)) + body)
        (size_bytes,) = FRAME_SIZE.unpack(self._receive(FRAME_SIZE.size))
        start = CORRELATION_ID_BYTES + len(tags)
        answer, _ = response.decode(self._receive(size_bytes), version, start)
        return answer

    def _receive(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            part = self._sock.recv(size_bytes - len(data))
            if not part:
                raise ConnectionAbortedError("the broker closed the connection")
            data += part
        return bytes(data)
