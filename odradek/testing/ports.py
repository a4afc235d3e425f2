"""Ports that stay reserved for a server, even while it is down.

A port that was free a moment ago may be taken by the time its server binds it: the system may give
it to another server or to a client's connection. A socket that is bound to the port but does not
listen prevents both. On Linux, a server that allows its address to be reused, as servers do, can
still listen there.
"""

import socket
import sys
import weakref
from typing import Final

HOST: Final = "127.0.0.1"
SERVERS_MAY_LISTEN: Final = sys.platform.startswith("linux")
"""Whether a server may listen on a port that another socket is bound to."""


class HeldPort:
    """A free port that is reserved until `close`, or until this object is collected.

    On systems other than Linux, it is only a port that was free a moment ago.
    """

    def __init__(self, host: str = HOST, port: int = 0) -> None:
        """`port` 0 takes a free one.  Raises: OSError if the given one is taken."""
        with socket.socket() as held:
            if SERVERS_MAY_LISTEN:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host, port))
            self.port: int = held.getsockname()[1]
            if SERVERS_MAY_LISTEN:
                self._close = weakref.finalize(self, socket.close, held.detach())

    def close(self) -> None:
        """Release the port."""
        if SERVERS_MAY_LISTEN:
            self._close()
