"""Connections with TLS: accepted on our own socket, then served by asyncio's transports.

asyncio shows a connection only after its handshake. A client that never ends its handshake would be
counted by nobody, so the listener accepts by itself: the limits of connections apply before the
handshake, and a client has its slot from then on.
"""

import asyncio
import logging
import socket
import ssl
from typing import Final

from ..config import Config
from ..tls.context import Tls
from ..tls.mapping import NoRuleFits
from ..tls.subject import BadDer
from .call import ANONYMOUS, Principal
from .connections import Connections
from .endpoints import Endpoint
from .listener import PlainListener
from .stream import StreamConnection

logger = logging.getLogger(__name__)

HANDSHAKE_S: Final = 10
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}
)


class TlsListener(PlainListener):
    """Accepts on its own socket, and lets asyncio speak TLS."""

    def __init__(
        self, connections: Connections, endpoint: Endpoint, config: Config, tls: Tls
    ) -> None:
        super().__init__(connections, endpoint, config)
        self._tls = tls
        self._handshakes: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop accepting, and give up handshakes; open connections stay."""
        super().close()
        for task in self._handshakes:
            task.cancel()

    def _serve(self, sock: socket.socket, host: str) -> None:
        connection = TlsConnection(self._connections, self.name, host, self._tls)
        task = asyncio.get_running_loop().create_task(self._shake_hands(sock, connection))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        # Even a task that is cancelled before its first step has had a slot and a socket.
        task.add_done_callback(lambda _: connection.give_back_slot())
        task.add_done_callback(lambda done: sock.close() if done.cancelled() else None)

    async def _shake_hands(self, sock: socket.socket, connection: "TlsConnection") -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._tls.context,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except OSError as error:
            reason = _reason(error)
            if reason:
                self._connections.log_handshake(self.name, connection.host, reason)


class TlsConnection(StreamConnection):
    """The asyncio protocol of a connection with TLS; it has a slot from the start."""

    def __init__(self, connections: Connections, listener_name: str, host: str, tls: Tls) -> None:
        super().__init__(connections, listener_name)
        self.host = host
        self._tls = tls
        self._has_slot = True
        connections.reserve(host)

    def give_back_slot(self) -> None:
        """End the reservation, if it has not ended: the handshake is over."""
        if self._has_slot:
            self._has_slot = False
            self._connections.unreserve(self.host)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve a client whose handshake has succeeded, under its own name."""
        assert isinstance(transport, asyncio.Transport)
        try:
            principal = self._principal(transport)
        except (BadDer, NoRuleFits) as error:
            self._connections.log_handshake(self._listener_name, self.host, str(error))
            transport.abort()
            return
        self.give_back_slot()  # the connection takes it
        self._adopt(transport, self.host).principal = principal

    def _principal(self, transport: asyncio.Transport) -> Principal:
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if not certificate:
            return ANONYMOUS
        return Principal("User", self._tls.user(certificate))


def _reason(error: OSError) -> str:
    """Why a handshake failed, for the log; empty if the client has just gone."""
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in _NOT_TLS:
            return "this is not TLS, which the listener requires (security.protocol=SSL)"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the client's certificate is refused: {error.verify_message}"
        return f"TLS: {reason.replace('_', ' ').lower() or error}"
    if isinstance(error, ConnectionAbortedError) and "taking longer" in str(error):
        return f"the TLS handshake took longer than {HANDSHAKE_S} s"
    return ""
