"""Connections on asyncio's transports: for platforms without sendfile, and for simulators.

Spans are read in pieces and written as bytes, no faster than the transport drains. What comes is
handled when asyncio hands it over; a connection takes turns (`shares`) only for what is left then.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from odradek.protocol.primitives import Writer
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.span import Span

from .connection import Connection

if TYPE_CHECKING:
    from .connections import Connections

_PIECE_BYTES: Final = 1 << 18


class StreamConnection(asyncio.BufferedProtocol):
    """The asyncio protocol of a connection; `_Stream` is the connection itself."""

    def __init__(
        self, connections: "Connections", listener_name: str, entrance: str | None = None
    ) -> None:
        """`entrance`: the listener's, unless another one is given."""
        self._connections = connections
        self._listener_name = listener_name
        self._entrance = entrance or listener_name
        self._stream: _Stream | None = None
        self._nowhere = bytearray(1)  # receives the bytes of a refused client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a client, or refuse it if there are too many."""
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else ""
        writable = cast(asyncio.Transport, transport)
        admission, name = self._connections.admission, self._listener_name
        if not admission.has_slot(name) or admission.delay_ms(name):
            writable.abort()
            return
        if admission.is_over_quota(host, name, writable.abort):
            writable.pause_reading()
            return
        if admission.refuses(host, name):
            writable.abort()
            return
        sock = transport.get_extra_info("socket")
        if sock is not None:  # a simulator has none
            self._connections.tune(sock)
        self._stream = _Stream(self._connections, self._listener_name, host, writable)
        self._stream.entrance = self._entrance
        self._connections.add(self._stream)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return the memory for asyncio to receive into."""
        return self._nowhere if self._stream is None else self._stream.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle `nbytes` received bytes."""
        if self._stream is not None and not self._stream.closed:
            self._stream.on_received(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection: the client is gone, or we hung up."""
        if self._stream is not None:
            self._stream.close("")

    def pause_writing(self) -> None:
        """Stop writing: the buffer of the transport is full."""
        if self._stream is not None:
            self._stream.is_full = True

    def resume_writing(self) -> None:
        """Continue writing: the transport accepts more."""
        if self._stream is not None:
            self._stream.on_drained()


class _Stream(Connection):
    """A connection over a transport."""

    __slots__ = ("_transport", "is_full")

    def __init__(
        self,
        connections: "Connections",
        listener_name: str,
        host: str,
        transport: asyncio.Transport,
    ) -> None:
        super().__init__(connections, listener_name, host)
        self._transport = transport
        self.is_full = False

    @property
    def is_sending(self) -> bool:
        """Whether an answer is still on its way out."""
        return bool(self._out) or self.is_full

    def send(self, out: Writer) -> None:
        """Send a whole frame with its splices, after all earlier frames."""
        self._queue(out)
        self._flush()

    def on_drained(self) -> None:
        """Continue writing: the transport accepts more."""
        self.is_full = False
        self.active_ms = self._connections.clock.now_ms()
        self._flush()
        if not self.is_sending:
            self.resume()

    def _flush(self) -> None:
        while self._out and not self.is_full and not self.closed:
            piece = self._out[0]
            if isinstance(piece, Span):
                self._send_some(piece)
            else:
                self._out.popleft()
                self._transport.write(piece)

    def _send_some(self, span: Span) -> None:
        """Send the next piece of the first span; release the span after its last piece."""
        size_bytes = min(_PIECE_BYTES, span.size_bytes - self._span_sent_bytes)
        try:
            data = span.file.pread(size_bytes, span.position + self._span_sent_bytes)
        except LogDirFailed as error:
            self.close(str(error))
            return
        if len(data) != size_bytes:  # the frame's size has been sent and can't be kept
            self.close("log is shorter than an answer on its way out")
            return
        self._span_sent_bytes += size_bytes
        if self._span_sent_bytes == span.size_bytes:
            self._out.popleft()
            self._span_sent_bytes = 0
            span.release()
        self._transport.write(data)

    def _send_gathered(self) -> None:
        """Do nothing: no answer was held back, as the transport buffers by itself."""

    def _pause_reading(self) -> None:
        self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._transport.resume_reading()

    def _prepare_reset(self) -> None:
        self._transport.abort()

    def _hang_up(self) -> None:
        self._give_back_pieces()
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # a client that does not read would keep the buffer for ever
        else:
            self._transport.close()
