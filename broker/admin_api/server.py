"""The server of the admin API: its socket, its connections, and how a request finds its route."""

import asyncio
import contextlib
import errno
import inspect
import logging
import os
import socket
from typing import Final

from ..peers.connection import reason_of
from ..server import StartupError
from ..settings.admin import AdminAddress
from ..tasks import TaskSupervisor
from .controls import Controls
from .fields import Json, parse_body, parse_query
from .gate import Gate
from .http import Answer, Head, HttpConnection, Respond
from .problems import Problem
from .routes import find

logger = logging.getLogger(__name__)

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
        self._gate = Gate(self.address, self._token)
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
        connection = HttpConnection(reader, writer, self._admit)
        if len(self._tasks) >= 2 * CONNECTIONS_MAX:
            writer.transport.abort()
        elif len(self._tasks) >= CONNECTIONS_MAX:
            full = Problem(503, f"{CONNECTIONS_MAX} clients are connected: close one first")
            self._tasks.spawn(connection.refuse(full), "refuse an admin client")
        else:
            self._tasks.spawn(connection.serve(), "serve an admin client")

    def _admit(self, head: Head) -> Respond:
        self._gate.check(head.method, head.headers)
        route, arguments = find(head.method, head.path)
        is_post = route.method == "POST"
        if is_post and head.query:
            raise Problem(400, "a POST has its fields in the body, not in a query")

        async def respond(body: bytes) -> Answer:
            if body and not is_post:
                raise Problem(400, f"a {route.method} has no body")
            parse = parse_body(body, route.fields) if is_post else None
            fields = parse_query(head.query, route.fields) if parse is None else parse
            level = logging.DEBUG if route.method == "GET" else logging.INFO
            logger.log(level, "admin method=%s path=%.200s", head.method, head.path)
            try:
                result = route.resource(self._controls, arguments, fields)
                content: Json = await result if inspect.isawaitable(result) else result
            except Problem:
                raise
            except Exception as error:  # a bug: the client must hear of it, the broker go on
                logger.exception("admin request failed path=%.200s", head.path)
                raise Problem(500, f"this failed: {error!r}; the log says where") from error
            return Answer(route.status, content)

        return respond


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
