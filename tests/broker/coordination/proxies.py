"""A TCP proxy in the test's own loop, whose connections can be cut, and whose answers held back."""

import asyncio
from contextlib import suppress

from tests.support.tcp_server import HOST, TcpServer


class Proxy(TcpServer):
    """Between clients and `127.0.0.1:port`."""

    def __init__(self, port: int) -> None:
        super().__init__(self._relay)
        self._upstream_port = port
        self._writers: set[asyncio.StreamWriter] = set()
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
        return f"{HOST}:{self.port}"

    def cut(self) -> None:
        """Reset all connections."""
        self.cuts += bool(self._writers)
        for writer in self._writers:
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open:
            return
        far_reader, far_writer = await asyncio.open_connection(HOST, self._upstream_port)
        ends = {writer, far_writer}
        self._writers |= ends
        pumps = [
            asyncio.create_task(self._pump(reader, far_writer, is_answer=False)),
            asyncio.create_task(self._pump(far_reader, writer, is_answer=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.transport.abort()
            self._writers -= ends
            await asyncio.wait(pumps)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if not is_answer or self.answers.is_set():
                    target.write(data)
                else:
                    self.has_lost.set()
