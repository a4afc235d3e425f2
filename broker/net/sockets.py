"""Helpers for sockets."""

import socket
import struct
from typing import Final

_NO_LINGER: Final = struct.pack("ii", 1, 0)


def reset_on_close(sock: socket.socket) -> None:
    """Make closing the socket discard undelivered bytes and reset the connection (RST).

    Otherwise the system tries for minutes to deliver them, long after the socket was closed.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
