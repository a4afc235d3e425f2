"""Connections that own their socket: `recv_into`, `send`, and `sendfile` for spans of segments.

asyncio only reports when the socket is ready. All answers of one wake-up are sent together. Large
spans go from the file to the socket without a copy in this process; for small spans a copy is
cheaper than the system calls.
"""

import asyncio
import errno
import logging
import os
import socket
from typing import TYPE_CHECKING, Final

from odradek.protocol.primitives import Writer
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.span import Span

from .connection import Connection
from .sockets import reset_on_close

if TYPE_CHECKING:
    from .connections import Connections

logger = logging.getLogger(__name__)

SENDFILE_BYTES_MAX: Final = 4 << 20  # per wake-up; then other connections get their turn
GATHERED_BYTES_MAX: Final = 1 << 16
COPIED_SPANS_BYTES_MAX: Final = 1 << 16
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT})


class PlainConnection(Connection):
    """A connection on its own non-blocking socket."""

    __slots__ = (
        "_fd",
        "_gathered",
        "_loop",
        "_out_ready",
        "_socket",
        "_warm",
        "_warming",
    )

    def __init__(
        self, connections: "Connections", listener_name: str, host: str, sock: socket.socket
    ) -> None:
        super().__init__(connections, listener_name, host)
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        # Not the socket: a selector that does not know it describes it in an error that nobody
        # sees, and its addresses cost two calls of the system.
        self._fd = sock.fileno()
        self._gathered: Writer | None = None
        self._out_ready = False  # whether add_writer is active
        self._warm: Span | None = None  # the span that was read ahead
        self._warming: asyncio.Future[None] | None = None
        self._loop.add_reader(self._fd, self._on_readable)

    def detach(self) -> tuple[socket.socket, socket.socket]:
        """Go on with one of a pair of sockets; return the socket of before, and the other one."""
        before, fd = self._socket, self._fd
        self._socket, other = socket.socketpair()
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        if self._loop.remove_reader(fd):
            self._loop.add_reader(self._fd, self._on_readable)
        if self._loop.remove_writer(fd):
            self._loop.add_writer(self._fd, self._on_writable)
        return before, other

    @property
    def is_sending(self) -> bool:
        """Whether an answer is still on its way out."""
        return bool(self._out)

    def send(self, out: Writer) -> None:
        """Send a whole frame with its splices, after all earlier frames."""
        if out.splices and not self._copy_spans(out):
            self._send_gathered()
            self._queue(out)
            self._flush()
        elif self.is_gathering:
            if self._gathered is None:
                self._gathered = out
            else:
                self._gathered += out
            if len(self._gathered) > GATHERED_BYTES_MAX:
                self._send_gathered()
        elif self._out:
            self._queue(out)
        else:
            self._send_now(out)

    def _copy_spans(self, out: Writer) -> bool:
        """Copy the bytes of small spans into `out`, unless that would wait for the disk."""
        if out.spliced_bytes > COPIED_SPANS_BYTES_MAX:
            return False
        pieces, start = [], 0
        for position, span in out.splices:
            assert isinstance(span, Span)
            try:
                data = self._connections.read_if_warm(span)
            except LogDirFailed:
                return False  # recurs when the spans are sent, and is handled there
            if data is None:
                return False
            pieces += [out[start:position], data]
            start = position
        pieces.append(out[start:])
        for _, span in out.splices:
            span.release()  # type: ignore[attr-defined]  # they are spans
        out.splices, out.spliced_bytes = (), 0
        out[:] = b"".join(pieces)
        return True

    def _send_gathered(self) -> None:
        """Send the answers of this wake-up."""
        gathered = self._gathered
        if gathered is not None:
            self._gathered = None
            if self._out:
                self._queue(gathered)
            else:
                self._send_now(gathered)

    def _send_now(self, out: Writer) -> None:
        try:
            sent = self._socket.send(out)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._on_send_error(error)
            return
        if sent < len(out):
            self._out.append(memoryview(out)[sent:])
            self._wait_until_writable(True)

    def _on_readable(self) -> None:
        if self._next is not None:  # the loop would say so again in each of its turns
            self._look_away()
        elif self._shares.take_turns:
            self._take_turn(self._receive)
        else:
            self._receive()

    def _receive(self) -> None:
        """Receive what has come, and handle it."""
        try:
            received = self._socket.recv_into(self.room())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            received = 0
        self.on_received(received)

    def _flush(self) -> None:
        """Send queued pieces until the socket accepts no more, or one wake-up's share is sent."""
        out = self._out
        share_bytes = SENDFILE_BYTES_MAX
        try:
            while out and share_bytes > 0 and self._warming is None:
                piece = out[0]
                if isinstance(piece, Span):
                    if self._warms_up(piece):
                        return
                    share_bytes -= self._send_span(piece)
                else:
                    more = socket.MSG_MORE if len(out) > 1 else 0
                    sent = self._socket.send(piece, more)
                    if sent < len(piece):
                        out[0] = piece[sent:]
                    else:
                        out.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._on_send_error(error)
            return
        except LogDirFailed as error:
            self.close(f"span can't be read: {error}")
            return
        if not self.closed and self._warming is None:
            self._wait_until_writable(bool(out))

    def _send_span(self, span: Span) -> int:
        """Send a part of a span; return its size in bytes.  Raises: OSError."""
        position = span.position + self._span_sent_bytes
        left_bytes = span.size_bytes - self._span_sent_bytes
        count = min(left_bytes, SENDFILE_BYTES_MAX)
        sent = os.sendfile(self._socket.fileno(), span.file.fileno(), position, count)
        self._note_sent(span, sent)
        return sent

    def _note_sent(self, span: Span, sent: int) -> None:
        """Take note that the next bytes of the first span are sent.  Raises: OSError."""
        if sent == 0:  # the announced length can't be kept
            raise OSError(errno.EIO, "segment ends inside a span", span.file.path)
        self._span_sent_bytes += sent
        if self._span_sent_bytes == span.size_bytes:
            self._out.popleft()
            self._span_sent_bytes = 0
            self._warm = None
            span.release()

    def _warms_up(self, span: Span) -> bool:
        """Whether the first span must be read ahead before it is sent; then it is being read."""
        begins = self._span_sent_bytes == 0 and span is not self._warm
        if begins and self._connections.is_cold(span):
            self._warm_up(span)
            return True
        return False

    def _warm_up(self, span: Span) -> None:
        """Read a span that is not in the page cache in a thread, not to block the loop."""
        self._warm = span
        self._wait_until_writable(False)
        self._warming = asyncio.ensure_future(self._connections.warm_up(span))
        self._warming.add_done_callback(self._on_warm)

    def _on_warm(self, warming: asyncio.Future[None]) -> None:
        self._warming = None
        if self.closed or warming.cancelled():
            return
        error = warming.exception()
        if error is not None:
            self.close(f"span can't be read: {error}")
            return
        self._wait_until_writable(True)

    def _on_writable(self) -> None:
        self.active_ms = self._connections.clock.now_ms()
        self._flush()
        if not self.is_sending:
            self.resume()

    def _on_send_error(self, error: OSError) -> None:
        self.close("" if error.errno in _GONE else f"send failed: {error}")

    def _wait_until_writable(self, wanted: bool) -> None:
        if wanted != self._out_ready:
            self._out_ready = wanted
            if wanted:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)

    def _pause_reading(self) -> None:
        self._loop.remove_reader(self._fd)

    def _resume_reading(self) -> None:
        self._loop.add_reader(self._fd, self._on_readable)

    def _prepare_reset(self) -> None:
        reset_on_close(self._socket)

    def _hang_up(self) -> None:
        self._loop.remove_reader(self._fd)
        self._wait_until_writable(False)
        if self._warming is not None:
            self._warming.cancel()
        self._gathered = None
        self._give_back_pieces()
        self._socket.close()
