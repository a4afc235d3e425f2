"""A TCP proxy in the test's own loop, whose connections can be cut, and whose answers held back."""

import asyncio
from contextlib import suppress
from typing import Self


class Proxy:
    """Between clients and `127.0.0.1:port`; an asynchronous context manager."""

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = True
        """Whether new connections are let through."""
        self.answers = asyncio.Event()
        """Cleared: what the server says is read and lost with the connection."""
        self.answers.set()
        self.cuts = 0
        self.has_lost = asyncio.Event()
        """An answer."""

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Reset all connections."""
        self.cuts += bool(self._writers)
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        for source, target, gate in ((reader, far_writer, None), (far_reader, writer, True)):
            task = asyncio.create_task(self._pump(source, target, ends, bool(gate)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        ends: set[asyncio.StreamWriter],
        is_answer: bool,
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if not is_answer or self.answers.is_set():
                    target.write(data)
                else:
                    self.has_lost.set()
        for writer in ends:
            writer.transport.abort()
        self._writers -= ends
