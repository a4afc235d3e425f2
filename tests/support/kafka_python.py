"""kafka-python leaves sockets open, which pytest reports in whatever test the collector finds them.

It forgets a socket that did not reach its broker. It forgets one that still had bytes to send when
its client closed. A client that could not be made forgets those by which it wakes itself. All are
closed here without a warning. For every other socket the warning is an error.
"""

import socket
import ssl
from functools import wraps
from typing import Any

from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport


class QuietSocket(socket.socket):
    """A socket that closes without a warning when it is collected."""

    __slots__ = ()  # so that a socket can become one

    def __del__(self) -> None:
        self._real_close()  # type: ignore[attr-defined]  # `close` needs a socket that was made


class QuietTlsSocket(ssl.SSLSocket):
    """The same with TLS."""

    def __del__(self) -> None:
        self._real_close()  # type: ignore[attr-defined]


def close_quietly() -> None:
    """Close the sockets that kafka-python leaves open without a warning."""
    KafkaNetSocket.socket = QuietSocket
    _quieten(KafkaSSLTransport, "_sock")
    _quieten(NetworkSelector, "_wakeup_r", "_wakeup_w")


def _quieten(kind: Any, *names: str) -> None:
    """Let these sockets close quietly in every object of a kind."""
    make = kind.__init__

    @wraps(make)
    def make_quiet(self: object, *arguments: object, **options: object) -> None:
        make(self, *arguments, **options)
        for name in names:
            sock = getattr(self, name)
            sock.__class__ = QuietTlsSocket if isinstance(sock, ssl.SSLSocket) else QuietSocket

    kind.__init__ = make_quiet
