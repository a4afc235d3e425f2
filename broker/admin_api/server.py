"""The server of the admin API: its socket and its connections.

What speaks HTTP, and all resources, are imported with the first connection: brokers of fixtures
always have an admin API, and must start soon.
"""

import asyncio
import contextlib
import errno
import os
import socket
from typing import Final

from ..peers.connection import reason_of
from ..server import StartupError
from ..settings.admin import AdminAddress
from ..tasks import TaskSupervisor
from .controls import Controls

CONNECTIONS_MAX: Final = 32
OWNER_ONLY: Final = 0o600


class AdminServer:
    """The admin API at an address; `open`, then `close`."""

    def __init__(self, address: AdminAddress, token: str, controls: Controls) -> None:
        self.address = address
        """With the actual port, once opened."""
        self._token = token
        self._controls = controls
        self._tasks = TaskSupervisor()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen.  Raises: StartupError."""
        try:
            listening = _bind(self.address)
        except OSError as error:
            raise StartupError(
                f"the admin API can't listen on {_shown(self.address)}: {reason_of(error)}"
            ) from error
        if not self.address.path:
            self.address = self.address._replace(port=listening.getsockname()[1])
        start = asyncio.start_unix_server if self.address.path else asyncio.start_server
        self._server = await start(self._connect, sock=listening)

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
            if self.address.path:
                with contextlib.suppress(OSError):
                    os.unlink(self.address.path)
            self._server = None
        await self._tasks.close()

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from .gate import Gate
        from .http import HttpConnection
        from .problems import Problem
        from .requests import Requests

        admit = Requests(Gate(self.address, self._token), self._controls).admit
        connection = HttpConnection(reader, writer, admit)
        if len(self._tasks) >= 2 * CONNECTIONS_MAX:
            writer.transport.abort()
        elif len(self._tasks) >= CONNECTIONS_MAX:
            full = Problem(503, f"{CONNECTIONS_MAX} clients are connected: close one first")
            self._tasks.spawn(connection.refuse(full), "refuse an admin client")
        else:
            self._tasks.spawn(connection.serve(), "serve an admin client")


def _shown(address: AdminAddress) -> str:
    return str(address) if address.path else address.authority


def _bind(address: AdminAddress) -> socket.socket:
    """Raises: OSError."""
    if address.path:
        return _bind_path(address.path)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family)


def _bind_path(path: str) -> socket.socket:
    """Bind a Unix socket that only this user may connect to; replace one that nobody listens on."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        try:
            listening.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _is_left_behind(path):
                raise
            os.unlink(path)
            listening.bind(path)
        os.chmod(path, OWNER_ONLY)  # before it listens, so that nobody is connected earlier
    except BaseException:
        listening.close()
        raise
    return listening


def _is_left_behind(path: str) -> bool:
    """Whether a path is a socket of a process that has ended."""
    with socket.socket(socket.AF_UNIX) as trial:
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            return os.path.exists(path) and not os.path.isfile(path)
        except OSError:
            return False
    return False
