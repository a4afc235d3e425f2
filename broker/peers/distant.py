"""A connection to another broker over a link that tests cut and slow down.

A cut link loses packets: the connection stays open, but a question is not sent, and of an answer
nothing is read. What waits is at most one question here; answers wait in the other broker. Once the
link is mended it goes on, unless the time for the answer has passed: then the connection is over.
"""

import asyncio
from collections.abc import Callable

from odradek.protocol.primitives import Writer

from ..network.network import Link
from .connection import READ_BYTES_MAX, PeerConnection


class DistantConnection(PeerConnection):
    """See the module."""

    def __init__(self, response_bytes_max: int, on_end: Callable[[], None], link: Link) -> None:
        super().__init__(response_bytes_max, on_end)
        self._link = link
        self._question: Writer | None = None
        """What is not yet sent."""
        self._sends_at_s = 0.0
        self._reads_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def fail(self, reason: str) -> None:
        """Disconnect; see `PeerConnection`."""
        self._link.unwatch(self._go_on)
        self._stop_timer()
        super().fail(reason)

    def _send(self, transport: asyncio.Transport, request: Writer) -> None:
        if self._link.is_good:
            super()._send(transport, request)
            return
        now_s = asyncio.get_running_loop().time()
        self._question = request
        self._sends_at_s = now_s + self._link.condition.transit_s(len(request))
        self._go_on()

    def _go_on(self) -> None:
        """Do what the link allows now, and the rest later."""
        self._stop_timer()
        transport = self._transport
        if self.failure or transport is None:
            return
        if self._link.is_cut:
            transport.pause_reading()
            return
        now_s = asyncio.get_running_loop().time()
        if self._question is not None:
            if now_s < self._sends_at_s and not self._link.is_good:
                self._go_on_at(self._sends_at_s)
                return
            question, self._question = self._question, None
            transport.write(question)
        if now_s < self._reads_at_s and not self._link.is_good:
            transport.pause_reading()
            self._go_on_at(self._reads_at_s)
        else:
            transport.resume_reading()

    def _go_on_at(self, moment_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(moment_s, self._go_on)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        super().connection_made(transport)
        if not self.failure:
            self._link.watch(self._go_on)
            if not self._link.is_good:
                self._go_on()

    def get_buffer(self, sizehint: int) -> memoryview | bytearray:
        """The part of the buffer for the next bytes; little, if they come slowly."""
        room = super().get_buffer(sizehint)
        if self._link.is_good or isinstance(room, bytearray):
            return room
        return room[: self._link.condition.piece_bytes(READ_BYTES_MAX)]

    def buffer_updated(self, size_bytes: int) -> None:
        """Process received bytes, and read no more for as long as they would have taken."""
        super().buffer_updated(size_bytes)
        if not self._link.is_good:
            now_s = asyncio.get_running_loop().time()
            taken_s = self._link.condition.sending_s(size_bytes)
            self._reads_at_s = max(now_s, self._reads_at_s) + taken_s
            if taken_s:
                self._go_on()
