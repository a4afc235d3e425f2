"""Listeners whose connections use TLS."""

import socket
from typing import Final

from ..certificates import Certificates
from ..config import Config
from .connections import Connections
from .endpoints import Endpoint
from .listener import PlainListener
from .tls_socket import TlsConnection

# In one wake-up: of records that only change keys, even these take long.
RECEIVED_BYTES_MAX: Final = 1 << 16


class TlsListener(PlainListener):
    """Accepts on its own socket, and passes sockets to `TlsConnection`."""

    def __init__(
        self,
        connections: Connections,
        endpoint: Endpoint,
        config: Config,
        certificates: Certificates,
    ) -> None:
        super().__init__(connections, endpoint, config)
        self._certificates = certificates
        self._scratch = memoryview(bytearray(RECEIVED_BYTES_MAX))

    def _connection(self, sock: socket.socket, host: str) -> TlsConnection:
        tls, connections = self._certificates.tls(self.name), self._connections
        return TlsConnection(connections, self.name, host, sock, tls=tls, scratch=self._scratch)
