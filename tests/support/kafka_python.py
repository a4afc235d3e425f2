"""Sockets that kafka-python leaves open.

It forgets the socket by which it did not reach a broker, and the one by which bytes were still to
be sent as a client closed. The garbage collector finds them in some later test, which would fail.
These sockets are closed then, without a warning; it stays an error for all others.
"""

import socket
import ssl

from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport


class LeftOpen(socket.socket):
    """A socket that may be left open."""

    def __del__(self) -> None:
        self.close()


class TlsLeftOpen(ssl.SSLSocket):
    """The same with TLS."""

    def __del__(self) -> None:
        self.close()


def leave_open() -> None:
    """Let kafka-python leave its sockets open."""
    build_context = KafkaSSLTransport._build_ssl_context

    def build(config: dict[str, object]) -> ssl.SSLContext:
        context: ssl.SSLContext = build_context(config)
        context.sslsocket_class = TlsLeftOpen
        return context

    KafkaNetSocket.socket = lambda _, *kind: LeftOpen(*kind)
    KafkaSSLTransport._build_ssl_context = staticmethod(build)
