"""One client's connection: from received pieces to handled frames, the same for every kind of I/O.

Subclasses move bytes: `plain_socket` on its own socket with sendfile, `stream` on asyncio's
transports, for platforms and simulators without these. This module holds what they share: when to
read, when to wait, when to hang up.

Reading stops while the buffer holds bytes that may not be handled yet. This is so if they must not
overtake a parked answer, or if an answer has not been sent yet; the latter is the back-pressure on
a client that does not read. A waiting connection continues to read if its buffer is empty, or holds
only the beginning of a frame that may be handled once it is whole; so it notices when its client
hangs up. Reading also stops while there is no memory for the rest of a large frame.

Of many frames that have come together only those are handled which fit into a turn. The rest waits
for the next one, and under a flood all connections take turns (`shares`).
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Writer
from odradek.storage.log.span import Span

from .call import ANONYMOUS, CloseConnection
from .receive import FrameBuffer
from .shares import TURN_NS

if TYPE_CHECKING:
    from ..core.refused_batches import RefusedBatches
    from .authenticator import Authenticator
    from .connections import Connections
    from .dispatcher import Dispatcher

logger = logging.getLogger(__name__)

WAITING_RECEIVE_BYTES_MAX: Final = 1 << 16
FRAMES_IN_A_TURN_MAX: Final = 100
"""Even if the clock stands still, as in a simulation."""
_LOOKS: Final = 8
"""So many frames in a row are each followed by a look at the clock; then each eighth one is."""


class Ended:
    """Takes the place of a closed connection's dispatcher.

    The two would keep each other in memory until the collector comes, and under a flood there are
    thousands of them for which everybody waits then.
    """

    is_held = True
    parked = ()

    def may_follow(self, frame: memoryview | bytes) -> bool:
        """Whether `frame` may be handled now: never."""
        return False

    def on_frame(self, frame: memoryview) -> None:
        """Do not handle a frame."""

    def close(self) -> None:
        """Do nothing: nothing is parked."""


ENDED: Final = Ended()


class Connection(ABC):
    """The part of a connection that does no I/O."""

    __slots__ = (
        "_connections",
        "_floods",
        "_looks_away",
        "_next",
        "_out",
        "_reading",
        "_shares",
        "_span_sent_bytes",
        "active_ms",
        "closed",
        "dispatcher",
        "entrance",
        "frames",
        "host",
        "is_gathering",
        "listener_name",
        "principal",
        "refused_batches",
        "rested_ns",
        "software",
    )

    def __init__(self, connections: "Connections", listener_name: str, host: str) -> None:
        self._connections = connections
        self._reading = True
        self._shares = connections.shares
        self.rested_ns = connections.shares.last_rested_ns
        self._next: Callable[[], None] | None = None
        """What is done when it is this connection's turn."""
        self._looks_away = False
        """Whether it is not notified of received bytes until then, although it reads."""
        self._floods = False
        """Whether more requests came at once than fit into a turn: fewer are received then."""
        self._out: deque[memoryview | Span] = deque()
        """Pieces that wait to be sent, in order."""
        self._span_sent_bytes = 0
        """Bytes already sent of the first piece, if that is a span."""
        self.listener_name = self.entrance = listener_name
        self.host = host
        self.principal = ANONYMOUS
        self.refused_batches: RefusedBatches | None = None
        self.software = ""
        self.closed = False
        self.is_gathering = False
        """Whether answers may be held back because more follow immediately."""
        self.active_ms = connections.clock.now_ms()
        self.frames = FrameBuffer(connections.budget, connections.frame_bytes_max)
        self.dispatcher: Dispatcher | Authenticator | Ended = connections.dispatcher_for(self)
        """An `Authenticator` as long as the client must log in."""

    def note_software(self, software: str) -> None:
        """Note the software name that the client has given, for the log."""
        self.software = software

    def keep_memory(self, size_bytes: int) -> None:
        """Count the memory of what a request has copied for later, even if the client hangs up."""
        self._connections.budget.keep(size_bytes)

    def let_go_memory(self, size_bytes: int) -> None:
        """The end of what `keep_memory` has begun."""
        self._connections.budget.let_go(size_bytes)

    @abstractmethod
    def send(self, out: Writer) -> None:
        """Send a whole frame with its splices, after all earlier frames."""

    @property
    @abstractmethod
    def is_sending(self) -> bool:
        """Whether an answer is still on its way out."""

    @abstractmethod
    def _pause_reading(self) -> None:
        """Stop being notified of received bytes."""

    @abstractmethod
    def _resume_reading(self) -> None:
        """Be notified of received bytes again."""

    def _queue(self, out: Writer) -> None:
        """Append the pieces of a frame: the bytes of `out`, and the spans between them."""
        view, start = memoryview(out), 0
        for position, span in out.splices:
            assert isinstance(span, Span)
            if position > start:
                self._out.append(view[start:position])
            start = position
            span.on_drop = self._on_span_dropped
            self._out.append(span)
        if start < len(out):
            self._out.append(view[start:])

    def _on_span_dropped(self) -> None:
        self.close("log was truncated below an answer on its way out")

    def _give_back_pieces(self) -> None:
        """Release all queued pieces, as nothing more will be sent."""
        out, self._out = self._out, deque()
        for piece in out:
            if isinstance(piece, Span):
                piece.release()

    def gather(self) -> None:
        """Hold back what is sent until `send_gathered`, as more follows immediately."""
        self.is_gathering = True

    def send_gathered(self) -> None:
        """Send the answers that were held back."""
        self.is_gathering = False
        if not self.closed:
            self._send_gathered()

    @abstractmethod
    def _send_gathered(self) -> None:
        """Send the answers that were held back while `is_gathering`."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Close the socket and release all pieces that wait to be sent."""

    @abstractmethod
    def _prepare_reset(self) -> None:
        """Make hanging up discard all pieces that wait and reset the connection."""

    @property
    def is_reading(self) -> bool:
        """Whether the connection would notice that its client hangs up."""
        return self._reading

    @property
    def waits_for_turn(self) -> bool:
        """Whether it has something to do, and others come first."""
        return self._next is not None

    @property
    def progress_ms(self) -> int:
        """Since when nothing has come or gone that counts; a few bytes of a large frame do not."""
        unfinished = self.frames.holds_memory and not self.is_sending
        return self.frames.progress_ms if unfinished else self.active_ms

    def room(self) -> memoryview:
        """The memory to receive into; little, while frames wait for more than their turn."""
        room = self.frames.room()
        dispatcher = self.dispatcher
        if self._floods or (dispatcher.parked and dispatcher.is_held) or self.is_sending:
            return room[:WAITING_RECEIVE_BYTES_MAX]
        return room

    def on_received(self, size_bytes: int) -> None:
        """Take note of `size_bytes` received in `room`; 0 means that the client hung up."""
        if size_bytes == 0:
            self.close("")
            return
        self.active_ms = self._connections.clock.now_ms()
        self._floods = False
        self.frames.received(size_bytes)
        self._handle()

    def resume(self) -> None:
        """Handle the buffered frames that may be handled."""
        if self.frames.buffered_bytes:
            if self._next is None:
                self._take_turn(self._handle)
        else:
            self.read_on()

    def read_on(self) -> None:
        """Read on if that may be; what is buffered is not handled."""
        if not (self.closed or self._connections.is_paused):
            self._read_on()

    def _take_turn(self, serve: Callable[[], None]) -> None:
        """Call `serve` when it is this connection's turn; it must not wait for one already."""
        self._next = serve
        if self._shares.take_turns:
            self._shares.enter(self)
        else:
            self.on_turn()

    def on_turn(self) -> None:
        """Do what was to be done when it is this connection's turn."""
        serve, self._next = self._next, None
        if serve is None or self.closed or self._connections.is_paused:
            return
        if self._looks_away:
            self._looks_away = False
            if self._reading:
                self._resume_reading()
        serve()

    def _look_away(self) -> None:
        """Stop being notified of received bytes for as long as it waits for its turn."""
        self._looks_away = True
        self._pause_reading()

    def _handle(self) -> None:
        """Handle the buffered frames that may be handled now."""
        if self.frames.buffered_bytes:
            self._handle_frames()
        if not self.closed:
            self._read_on()

    def _read_on(self) -> None:
        """Read on, unless something that was read has to wait."""
        frames = self.frames
        if not frames.buffered_bytes:
            frames.close()
            if not self._reading:
                self._set_reading(True)
            return
        while not frames.settle(self.active_ms):
            self._connections.reclaim_memory()
        if self._next is not None or self.is_sending or not self._may_follow_later():
            self._set_reading(False)
        elif frames.make_room():
            self._set_reading(True)
        else:
            self._connections.wait_for_memory(self)
            self._set_reading(False)

    def pause(self) -> None:
        """Read nothing more, and handle nothing of what was read."""
        if self._reading:
            self._pause_reading()

    def go_on(self) -> None:
        """The end of `pause`."""
        if not self.closed:
            if self._reading:
                self._resume_reading()
            self.resume()

    def _may_follow_later(self) -> bool:
        """Whether the incomplete frame need not wait for an earlier answer once it is complete."""
        if self.dispatcher.is_held:
            return False
        start = self.frames.next_start()
        return start is None or self.dispatcher.may_follow(start)

    def close(self, reason: str) -> None:
        """Hang up; a non-empty reason is logged."""
        if self.closed:
            return
        self.closed = True
        if reason:
            self._connections.log_closed(self, reason)
        self.dispatcher.close()
        self.frames.close()
        self._hang_up()
        self._connections.forget(self)
        self.dispatcher = ENDED

    def reset(self) -> None:
        """Hang up with a reset, as the operating system does for a killed process."""
        self._prepare_reset()
        self.close("")

    def _handle_frames(self) -> None:
        frames = self.frames
        clock_ns = self._shares.now_ns
        handled = ends_ns = 0
        self.is_gathering = True
        try:
            while frames.buffered_bytes and not self.is_sending:
                if (frame := frames.next_frame()) is None:
                    return
                dispatcher = self.dispatcher  # another one after a login
                with frame:
                    if dispatcher.parked and not dispatcher.may_follow(frame):
                        return
                    # Not before each frame: that would cost small ones some percent of their time.
                    if handled and (handled < _LOOKS or not handled % _LOOKS):
                        now_ns = clock_ns()
                        if handled == 1:
                            ends_ns = now_ns + TURN_NS
                        elif now_ns >= ends_ns or handled > FRAMES_IN_A_TURN_MAX:
                            self._wait_for_turn()
                            return
                    handled += 1
                    dispatcher.on_frame(frame)
                if self.closed:
                    return
                frames.consume()
        except (MalformedMessage, CloseConnection) as error:
            if self.dispatcher.is_held:  # the size of a frame whose turn has not come
                return
            self._send_gathered()
            hint = "; this looks like TLS, which this listener does not use" * frames.is_tls
            self.close(f"{type(error).__name__}: {error}{hint}")
        except Exception:  # a bug must end only this connection, and log its traceback
            logger.exception("request failed peer=%s", self.host)
            self._send_gathered()
            self.close("a request failed")
        finally:
            self.send_gathered()

    def _wait_for_turn(self) -> None:
        self._floods = True
        if self._next is None:
            self._next = self._handle
            self._shares.wait(self)

    def _set_reading(self, reading: bool) -> None:
        if reading != self._reading:
            self._reading = reading
            if reading:
                self.frames.progress_ms = self._connections.clock.now_ms()
                self._resume_reading()
            else:
                self._pause_reading()
