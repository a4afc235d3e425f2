"""The listeners that a broker has open, and the entrance of a test."""

import os
import socket
from collections.abc import Iterator

from .certificates import Certificates
from .config import Config
from .net.connections import Connections
from .net.endpoints import Endpoint
from .net.listener import Listener, PlainListener, StreamListener


class CannotListen(Exception):
    """An address is not free, or not this machine's; one sentence for the operator."""


class Listeners:
    """Binds the addresses of a configuration, accepts, and closes."""

    def __init__(
        self,
        connections: Connections,
        config: Config,
        certificates: Certificates,
        *,
        portable: bool,
    ) -> None:
        """`portable`: through asyncio's transports, see `Broker`."""
        self._connections = connections
        self._config = config
        self._certificates = certificates
        self._portable = portable
        self._open: list[Listener] = []
        self._entrance: Listener | None = None

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._open)

    async def bind(self) -> None:
        """Bind all, so that the ports are known.  Raises: CannotListen; `close` is still due."""
        for endpoint in (*self._config.listener_endpoints, *self._config.private_endpoints):
            listener = self._listener(endpoint)
            try:
                await listener.bind()
            except OSError as error:
                raise CannotListen(f"cannot listen on {endpoint}: {_reason(error)}") from error
            self._open.append(listener)

    async def accept(self) -> None:
        """Accept connections; those made since `bind` have waited."""
        for listener in self._open:
            await listener.accept()

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        while self._open:
            self._open.pop().close()
        self._close_entrance()

    async def open_entrance(self, name: str, host: str, port: int) -> None:
        """Accept clients of the first listener there, too, and no longer at the last entrance.

        Raises: OSError.
        """
        entrance = self._listener(self._config.listener_endpoints[0]._replace(host=host, port=port))
        entrance.entrance = name
        self._close_entrance()  # the other one may have the same port
        await entrance.bind()
        self._entrance = entrance
        await entrance.accept()

    def _close_entrance(self) -> None:
        if self._entrance is not None:
            self._entrance.close()
            self._entrance = None

    def _listener(self, endpoint: Endpoint) -> Listener:
        if endpoint.name in self._certificates:
            from .net.tls_listener import TlsListener

            return TlsListener(self._connections, endpoint, self._config, self._certificates)
        kind = StreamListener if self._portable else PlainListener
        return kind(self._connections, endpoint, self._config)


def _reason(error: OSError) -> str:
    """The system's text for an error; asyncio's own text would repeat the address."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)
