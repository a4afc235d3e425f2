"""The way of a client's bytes over a link that tests cut and slow down.

A connection that has to take it gets one end of a pair of sockets instead of its own. Between the
other end and the client, bytes are passed on when they may arrive. So the connection does nothing
else than before, with TLS, too, and others do not come here.

Of a cut link nothing arrives. What the client sends waits, up to LANE_BYTES_MAX, and then in the
client; a client that hangs up meanwhile has sent in vain.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from ..network.network import Link
from .sockets import reset_on_close

LANE_BYTES_MAX: Final = 1 << 20
PIECE_BYTES_MAX: Final = 1 << 16


class Detour:
    """Passes bytes between a client and a connection, until one of them hangs up."""

    def __init__(
        self,
        client: socket.socket,
        connection: socket.socket,
        link: Link,
        on_end: Callable[[], None],
    ) -> None:
        """Both are closed at the end; `on_end` is called once."""
        self._sockets = client, connection
        self._link = link
        self._on_end = on_end
        self._is_closed = False
        for each in self._sockets:
            each.setblocking(False)
        self._lanes = (
            _Lane(client, connection, link, self._one_ended, is_late=True),
            _Lane(connection, client, link, self._one_ended, is_late=False),
        )
        link.watch(self._go_on)
        self._go_on()

    def close(self) -> None:
        """Hang up on both.  Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._link.unwatch(self._go_on)
        for lane in self._lanes:
            lane.close()
        for each in self._sockets:
            each.close()
        self._on_end()

    def reset(self) -> None:
        """Hang up with a reset, as the operating system does for a killed process."""
        if not self._is_closed:
            reset_on_close(self._sockets[0])
            self.close()

    def _go_on(self) -> None:
        for lane in self._lanes:
            if not self._is_closed:
                lane.go_on()

    def _one_ended(self, *, is_over: bool) -> None:
        """One direction has ended; `is_over`: nothing more will come in the other one, either."""
        _, to_client = self._lanes
        if is_over or to_client.has_ended:
            self.close()


class _Lane:
    """One direction."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        link: Link,
        ended: Callable[..., None],
        *,
        is_late: bool,
    ) -> None:
        """`is_late`: in this direction, so that a round trip has the delay once."""
        self.has_ended = False
        """Whether everything is passed on, and the end of it, too."""
        self._source = source
        self._sink = sink
        self._link = link
        self._ended = ended
        self._is_late = is_late
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, memoryview]] = deque()
        """Pieces, each with the time at which it may arrive."""
        self._held_bytes = 0
        self._free_at_s = 0.0
        """When the link has carried what was passed on."""
        self._has_source_ended = False
        self._is_reading = self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None

    def go_on(self) -> None:
        """Pass on what may arrive now, and the rest later."""
        self._stop_timer()
        self._read(not self._has_source_ended and self._held_bytes < LANE_BYTES_MAX)
        if self._link.is_cut:
            self._write(False)
            return
        try:
            waits_for_sink = self._pass_on()
        except OSError:
            self._ended(is_over=True)
            return
        self._write(waits_for_sink)
        self._read(not self._has_source_ended and self._held_bytes < LANE_BYTES_MAX)
        if self._has_source_ended and not self._held and not self.has_ended:
            self.has_ended = True
            self._shut()

    def close(self) -> None:
        """Do nothing more."""
        self._stop_timer()
        self._read(False)
        self._write(False)
        self._held.clear()

    def _pass_on(self) -> bool:
        """Send what is due; whether more is, but the sink accepts no more.  Raises: OSError."""
        condition = self._link.condition
        while self._held:
            now_s = self._loop.time()
            due_s, piece = self._held[0]
            at_s = max(due_s, self._free_at_s)
            if now_s < at_s and not self._link.is_good:
                self._timer = self._loop.call_at(at_s, self.go_on)
                return False
            try:
                sent = self._sink.send(piece[: condition.piece_bytes(len(piece))])
            except (BlockingIOError, InterruptedError):
                return True
            self._free_at_s = max(now_s, self._free_at_s) + condition.sending_s(sent)
            self._held_bytes -= sent
            if sent == len(piece):
                self._held.popleft()
            else:
                self._held[0] = due_s, piece[sent:]
        return False

    def _shut(self) -> None:
        try:
            self._sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._ended(is_over=True)
        else:
            self._ended(is_over=False)

    def _on_readable(self) -> None:
        try:
            data = self._source.recv(PIECE_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            delay_s = self._link.condition.delay_s if self._is_late else 0.0
            self._held.append((self._loop.time() + delay_s, memoryview(data)))
            self._held_bytes += len(data)
        else:
            self._has_source_ended = True
            if self._link.is_cut and self._is_late:  # the client has gone: nobody waits for this
                self._ended(is_over=True)
                return
        self.go_on()

    def _read(self, wanted: bool) -> None:
        if wanted != self._is_reading:
            self._is_reading = wanted
            if wanted:
                self._loop.add_reader(self._source, self._on_readable)
            else:
                self._loop.remove_reader(self._source)

    def _write(self, wanted: bool) -> None:
        if wanted != self._is_writing:
            self._is_writing = wanted
            if wanted:
                self._loop.add_writer(self._sink, self.go_on)
            else:
                self._loop.remove_writer(self._sink)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
