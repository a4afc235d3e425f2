"""Sockets that accept connections.

`PlainListener` accepts by itself and passes sockets to `PlainConnection`; `StreamListener` leaves
both to asyncio. A broker that is full (`max.connections`) or that accepts too fast
(`max.connection.creation.rate`) leaves new clients in the backlog, as Kafka does. asyncio can't do
this, so `StreamListener` closes their connections instead.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from ..config import Config
from .connections import Connections
from .endpoints import Endpoint
from .plain_socket import PlainConnection
from .stream import StreamConnection

logger = logging.getLogger(__name__)

ACCEPTS_PER_WAKE_UP: Final = 64
_PAUSE_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener(Protocol):
    """Accepts connections at an address."""

    name: str
    port: int
    entrance: str
    """Of the connections that are accepted."""

    async def bind(self) -> None:
        """Bind, so that the port is known.  Raises: OSError."""

    async def accept(self) -> None:
        """Accept connections; those made since `bind` have waited in the backlog."""

    def close(self) -> None:
        """Stop accepting; open connections stay."""


class PlainListener:
    """Accepts on its own socket."""

    def __init__(self, connections: Connections, endpoint: Endpoint, config: Config) -> None:
        self.name = self.entrance = endpoint.name
        self.port = endpoint.port
        self._host = endpoint.host
        self._backlog = config.socket_listen_backlog_size
        self._connections = connections
        self._admission = connections.admission
        self._socket: socket.socket | None = None
        self._resuming: asyncio.Task[None] | None = None

    async def bind(self) -> None:
        """Bind, so that the port is known.  Raises: OSError."""
        host, port = self._host, self.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if not host:
            family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        self._socket = socket.create_server(
            (host, port),
            family=family,
            backlog=self._backlog,
            dualstack_ipv6=not host and family == socket.AF_INET6,
        )
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]

    async def accept(self) -> None:
        """Accept connections; those made since `bind` have waited in the backlog."""
        assert self._socket is not None
        asyncio.get_running_loop().add_reader(self._socket, self._on_acceptable)

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        if self._resuming is not None:
            self._resuming.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def _on_acceptable(self) -> None:
        assert self._socket is not None
        for _ in range(ACCEPTS_PER_WAKE_UP):
            if not self._admission.has_slot(self.name):
                self._pause(partial(self._admission.wait_for_slot, self.name))
                return
            if delay_ms := self._admission.delay_ms(self.name):
                self._pause(partial(self._connections.clock.sleep, delay_ms))
                return
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                logger.error("can't accept listener=%s error=%s", self.name, error)
                self._pause(lambda: asyncio.sleep(_PAUSE_S))
                return
            self._adopt(sock, peer[0])

    def _adopt(self, sock: socket.socket, host: str) -> None:
        host = host.removeprefix("::ffff:")
        if self._admission.is_over_quota(host, self.name, sock.close):
            return
        if self._admission.refuses(host, self.name):
            sock.close()
            return
        sock.setblocking(False)
        self._connections.tune(sock)
        connection = self._connection(sock, host)
        connection.entrance = self.entrance
        self._connections.add(connection)

    def _connection(self, sock: socket.socket, host: str) -> PlainConnection:
        return PlainConnection(self._connections, self.name, host, sock)

    def _pause(self, until: Callable[[], Awaitable[None]]) -> None:
        """Leave clients in the backlog until `until` is done."""
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        self._resuming = loop.create_task(self._accept_after(until))

    async def _accept_after(self, until: Callable[[], Awaitable[None]]) -> None:
        await until()
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._on_acceptable)


class StreamListener:
    """Accepts through asyncio's transports: portable, and suitable for a simulator."""

    def __init__(self, connections: Connections, endpoint: Endpoint, config: Config) -> None:
        self.name = self.entrance = endpoint.name
        self.port = endpoint.port
        self._host = endpoint.host
        self._backlog = config.socket_listen_backlog_size
        self._connections = connections
        self._server: asyncio.Server | None = None

    async def bind(self) -> None:
        """Bind, so that the port is known.  Raises: OSError."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: StreamConnection(self._connections, self.name, self.entrance),
            self._host or None,
            self.port,
            backlog=self._backlog,
            start_serving=False,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def accept(self) -> None:
        """Accept connections; those made since `bind` have waited in the backlog."""
        assert self._server is not None
        await self._server.start_serving()

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        if self._server is not None:
            self._server.close()
