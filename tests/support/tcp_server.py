"""A TCP server in the loop of a test, of which nothing is left when it has stopped."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, Self

from .awaiting import turns

HOST: Final = "127.0.0.1"
MOMENT_S: Final = 1e-6
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpServer:
    """Calls a function for each connection, which ends when the function returns.

    The function need not care for a client that hangs up. An asynchronous context manager.
    """

    def __init__(self, serve: Serve, *, context: ssl.SSLContext | None = None) -> None:
        self._serve = serve
        self._context = context
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.connections: list[asyncio.StreamWriter] = []
        """All that there were."""
        self.port = 0
        """A free one at first, the same when it starts again."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(
            self._accepted, HOST, self.port, ssl=self._context
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Hang up, and end what the function does.  Raises: what the function raised."""
        assert self._server is not None
        # asyncio loses a connection for which it has no transport yet when the server closes.
        # A timer comes last in a turn: what was accepted by then has one when this goes on, and
        # nothing was accepted since.
        await asyncio.sleep(MOMENT_S)
        self._server.close()
        await turns(2)  # until all that were accepted are known here
        for writer in self.connections:
            writer.transport.abort()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        self._tasks.append(asyncio.create_task(self._run(reader, writer)))

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()
