"""Ports that stay a server's own, also while it is down.

A port that was free a moment ago may be anybody's by the time its server binds it: the system gives
it to another server or to a client's connection. A socket that is bound to the port and does not
listen keeps it from both, and on Linux a server that allows its address to be reused, as servers
do, listens there nevertheless.
"""

import socket
import sys
import weakref
from typing import Final

HOST: Final = "127.0.0.1"
SERVERS_MAY_LISTEN: Final = sys.platform.startswith("linux")
"""Whether a server may listen on a port that another socket is bound to."""


class HeldPort:
    """A free port that the system gives to nobody else until `close`, or until this is forgotten.

    On other systems than Linux it is only a port that was free a moment ago.
    """

    def __init__(self, host: str = HOST, port: int = 0) -> None:
        """`port` 0 takes a free one.  Raises: OSError if somebody has the given one."""
        with socket.socket() as held:
            if SERVERS_MAY_LISTEN:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host, port))
            self.port: int = held.getsockname()[1]
            if SERVERS_MAY_LISTEN:
                self._close = weakref.finalize(self, socket.close, held.detach())

    def close(self) -> None:
        """Give it back."""
        if SERVERS_MAY_LISTEN:
            self._close()
