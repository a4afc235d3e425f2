"""The socket side of a `Peer`: it sends one frame and receives one frame.

Bytes are received directly into the buffer from which the answer is decoded. When full, the buffer
at most doubles, whatever size the frame announces. It is reused for the next answer.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable
from typing import Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import FRAME_SIZE, frame_size
from odradek.protocol.primitives import Writer

from ..net.sockets import reset_on_close

BUFFER_BYTES_MIN: Final = 1 << 16
BUFFER_BYTES_KEPT: Final = 1 << 20
"""A larger buffer is dropped after an answer that is much smaller."""
READ_BYTES_MAX: Final = 1 << 20  # per wake-up, so that other connections get their turn


LATE: Final = "did not answer in time"


class PeerFailed(Exception):
    """The broker is unreachable, disconnected, took too long, or sent an invalid answer."""


def reason_of(error: Exception) -> str:
    """The description of a socket error, as a part of a sentence."""
    if isinstance(error, ssl.SSLError):
        from ..tls.client import why_refused  # not needed without TLS

        return why_refused(error)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio's text would repeat the address
    if isinstance(error, ConnectionError):
        return str(error) or "it hung up during the TLS handshake"
    return str(error) or "it took too long"


class PeerConnection(asyncio.BufferedProtocol):
    """One connection, from `connection_made` until it fails; it is never reopened."""

    def __init__(self, response_bytes_max: int, on_end: Callable[[], None]) -> None:
        """`on_end` is called once, when the connection is over."""
        self._response_bytes_max = response_bytes_max
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(BUFFER_BYTES_MIN))
        self._stray = bytearray(1)
        self._received_bytes = 0
        self._end = 0
        """The end of the current answer in the buffer; 0 while its size is unknown."""
        self._waiting: asyncio.Future[memoryview] | None = None
        self._deadline_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        """Checks whether the deadline has passed; one timer for all requests."""
        self.failure = ""
        """Why the connection is over."""
        self.log_in_at_s: float | None = None
        """When to log in again, by the loop's clock; None: never."""

    async def exchange(self, request: Writer, timeout_s: float) -> memoryview:
        """Send a frame and return the answer's frame, which is valid until the next call.

        Cancellation ends the connection, as the late answer could be taken for the next request's.
        Raises: PeerFailed.
        """
        if self.failure or self._transport is None:
            raise PeerFailed(self.failure)
        if len(self._buffer) > max(BUFFER_BYTES_KEPT, 4 * self._end):
            self._buffer = memoryview(bytearray(BUFFER_BYTES_MIN))
        self._received_bytes = self._end = 0
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[memoryview] = loop.create_future()
        self._waiting = waiting
        self._deadline_s = loop.time() + timeout_s
        if self._watch is None or self._watch.when() > self._deadline_s:
            self._look_at(self._deadline_s)
        self._send(self._transport, request)
        try:
            return await waiting
        except BaseException as error:
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # this task was cancelled after the result was set
            self.fail(str(error) or "cancelled")
            raise
        finally:
            self._waiting = None

    def _send(self, transport: asyncio.Transport, request: Writer) -> None:
        """Send a frame."""
        transport.write(request)

    def fail(self, reason: str) -> None:
        """Disconnect; the waiting caller gets PeerFailed, and its request is no longer delivered.

        Idempotent.
        """
        if self.failure:
            return
        self.failure = reason
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            if self._waiting is not None:
                self._drop_question(self._transport)
            self._transport.abort()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(PeerFailed(reason))
        # The transport is part of a reference cycle: free the buffer before the garbage collector.
        self._buffer = memoryview(b"")
        self._on_end()

    def _drop_question(self, transport: asyncio.Transport) -> None:
        """Keep a failed request from arriving after later requests on other connections."""
        sock = transport.get_extra_info("socket")
        if sock is not None:  # a simulator has none
            with contextlib.suppress(OSError):  # already closed
                reset_on_close(sock)

    def _look_at(self, moment_s: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(moment_s, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._waiting is None:
            return
        if asyncio.get_running_loop().time() < self._deadline_s:  # for an earlier request
            self._look_at(self._deadline_s)
        else:
            self.fail(LATE)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.failure:
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is over."""
        self.fail("hung up" if error is None else reason_of(error))

    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        """The part of the buffer for the next bytes."""
        if not self._is_expecting():
            return self._stray
        if self._received_bytes == len(self._buffer):
            grown = bytearray(min(2 * len(self._buffer), self._end))
            grown[: self._received_bytes] = self._buffer
            self._buffer = memoryview(grown)
        end = self._end or len(self._buffer)
        return self._buffer[self._received_bytes : min(end, self._received_bytes + READ_BYTES_MAX)]

    def buffer_updated(self, size_bytes: int) -> None:
        """Process received bytes; with the last byte of the frame, set the result."""
        if not self._is_expecting():
            self.fail("sent what was not asked for")
            return
        self._received_bytes += size_bytes
        if self._received_bytes < FRAME_SIZE.size:
            return
        if not self._end:
            try:
                announced = frame_size(self._buffer, 0, self._response_bytes_max)
            except MalformedMessage as error:
                self.fail(f"sent a {error}")
                return
            self._end = FRAME_SIZE.size + announced
        if self._received_bytes > self._end:
            self.fail("sent what was not asked for")
        elif self._received_bytes == self._end:
            assert self._waiting is not None
            self._waiting.set_result(self._buffer[FRAME_SIZE.size : self._end])

    def _is_expecting(self) -> bool:
        return self._waiting is not None and not self._waiting.done()
