"""What is asked of sockets beside their use."""

import socket
import struct
from typing import Final

_NO_LINGER: Final = struct.pack("ii", 1, 0)


def reset_on_close(sock: socket.socket) -> None:
    """Have the end of the connection drop what was not delivered, and tell the other side (RST).

    Else the system goes on trying for minutes to deliver it, long after the socket was closed.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
