"""Many connections of one process to a broker: idle ones, slow ones, and such that never read."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from tests.support.connections import RawConnection
from tests.support.frames import framed, request_bytes

from .target import HOST

ASK = request_bytes(ApiVersionsRequest(), 0)


@contextmanager
def crowd(
    port: int, count: int, tls: ssl.SSLContext | None = None
) -> Iterator[list[socket.socket]]:
    """So many connections; each has asked something, so that the broker has accepted it."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = RawConnection(HOST, port)
            opened.append(connection.socket)
            if tls is not None:
                connection.socket = tls.wrap_socket(connection.socket, server_hostname=HOST)
                opened[-1] = connection.socket
            connection.ask(ASK)
        yield opened
    finally:
        for sock in opened:
            sock.close()


def is_closed(sock: socket.socket) -> bool:
    """Whether the broker has hung up; whatever else has come is read."""
    sock.setblocking(False)
    try:
        while sock.recv(1 << 16):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True


class Dripping:
    """Sends a byte of something to each of many connections now and then."""

    def __init__(self, sockets: Sequence[socket.socket], data: bytes) -> None:
        self._left = {sock: memoryview(data) for sock in sockets}
        self.closed_after_s: list[float] = []
        self._began_s = time.monotonic()

    def __len__(self) -> int:
        """How many connections are still open."""
        return len(self._left)

    def drip(self) -> None:
        """Send the next byte to all, and forget those on which the broker has hung up."""
        for sock, data in list(self._left.items()):
            with contextlib.suppress(OSError):
                sock.send(data[:1])
            if is_closed(sock):
                del self._left[sock]
                self.closed_after_s.append(time.monotonic() - self._began_s)
            else:
                self._left[sock] = data[1:]


def stuff(sock: socket.socket, request: bytes) -> int:
    """Send the same request as often as the system takes it; return how often."""
    sock.setblocking(False)
    data, sent = framed(request) * 1000, 0
    try:
        while sent < 100 * len(data):
            sent += sock.send(memoryview(data)[sent % len(data) :])
    except BlockingIOError:
        pass
    return sent * 1000 // len(data)
