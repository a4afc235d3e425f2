"""One blocking connection to a broker: a frame out, a frame back."""

import socket
import ssl
from typing import Final, NamedTuple, Self

from . import wire

TIMEOUT_S: Final = 60.0


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `host:port`."""
        host, _, port = text.rpartition(":")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def connect(address: Address, authority: str | None = None) -> socket.socket:
    """A blocking socket without Nagle's delay; with the file of an authority, with TLS."""
    connected = socket.create_connection(address, timeout=TIMEOUT_S)
    # A timeout makes every call poll first; without one a call is one system call.
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if authority is not None:
        context = ssl.create_default_context(cafile=authority)
        return context.wrap_socket(connected, server_hostname=address.host)
    return connected


def receive_exactly(connected: socket.socket, view: memoryview) -> None:
    """Fill `view`.  Raises: ConnectionError when the broker closes before."""
    flags = 0 if isinstance(connected, ssl.SSLSocket) else socket.MSG_WAITALL
    while view:
        received = connected.recv_into(view, 0, flags)
        if received == 0:
            raise ConnectionError("the broker closed the connection")
        view = view[received:]


def call(connected: socket.socket, frame: bytes | bytearray) -> bytes:
    """Send a frame and return the answer's payload, without its length prefix."""
    connected.sendall(frame)
    prefix = bytearray(4)
    receive_exactly(connected, memoryview(prefix))
    payload = bytearray(wire.INT32.unpack(prefix)[0])
    receive_exactly(connected, memoryview(payload))
    return bytes(payload)


def call_once(address: Address, frame: bytes | bytearray) -> bytes:
    """`call` on a connection of its own."""
    with connect(address) as connected:
        return call(connected, frame)
