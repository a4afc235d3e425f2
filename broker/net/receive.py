"""Assembles received bytes into whole frames.

A waiting connection holds no buffer of its own. Pieces arrive in one scratch area shared by all
connections of a loop, and whole frames are handled in place. Only the remainder moves into a buffer
of the connection: the beginning of a frame, or frames that must wait for an answer. That buffer
grows with the received bytes, never by more than it already holds, and returns to a pool when it is
empty. All such buffers together stay below `queued.max.request.bytes`: large frames may use up to
seven eighths of it and then wait, so that small requests can still be received.
As in Kafka, the only connection that holds memory may exceed the limit, so that its frame can
complete.
"""

from collections.abc import Callable
from typing import Final

from odradek.protocol.framing import FRAME_SIZE, frame_size

SCRATCH_BYTES: Final = 1 << 20  # also the maximum read from one socket in one wake-up
_BUFFER_BYTES_MIN: Final = 1 << 16
_POOL_BYTES_MAX: Final = 8 << 20
_TLS_HANDSHAKE: Final = b"\x16\x03"


class ReceiveBudget:
    """The memory of all receive buffers of a broker, and a pool of free ones.

    `size_bytes_max` 0 or less: no limit.  `on_freed` is called whenever memory is freed.
    """

    def __init__(self, size_bytes_max: int, *, on_freed: Callable[[], None] = lambda: None) -> None:
        self._is_limited = size_bytes_max > 0
        self._size_bytes_max = size_bytes_max
        self._growing_bytes_max = size_bytes_max - size_bytes_max // 8
        self._on_freed = on_freed
        self._kept_bytes = 0
        self._pool: list[bytearray] = []
        self.used_bytes = 0
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))

    @property
    def is_roomy(self) -> bool:
        """Whether there is memory to keep everything that one wake-up may read."""
        busy_bytes = self.used_bytes + self._kept_bytes
        return not self._is_limited or busy_bytes + SCRATCH_BYTES <= self._growing_bytes_max

    @property
    def keeps(self) -> bool:
        """Whether a request is kept."""
        return self._kept_bytes > 0

    def keep(self, size_bytes: int) -> None:
        """Count a request that is kept in memory of its own; until it is let go, fewer may grow."""
        self._kept_bytes += size_bytes

    def let_go(self, size_bytes: int) -> None:
        """The end of what `keep` has begun."""
        self._kept_bytes -= size_bytes
        self._on_freed()

    def take(self, size_bytes: int) -> bytearray | None:
        """Return a buffer of at least `size_bytes`; None if others have used up the budget."""
        return self._take(size_bytes, self.used_bytes, self._size_bytes_max)

    def exchange(self, buffer: bytearray, size_bytes: int) -> bytearray | None:
        """Replace `buffer` by a larger one with the same content; None as in `take`."""
        others_bytes = self.used_bytes - len(buffer) + self._kept_bytes
        grown = self._take(size_bytes, others_bytes, self._growing_bytes_max)
        if grown is not None:
            grown[: len(buffer)] = buffer
            self.give_back(buffer)
        return grown

    def give_back(self, buffer: bytearray) -> None:
        """Free a buffer, which is empty and of which no view is alive."""
        self.used_bytes -= len(buffer)
        if sum(map(len, self._pool)) + len(buffer) <= _POOL_BYTES_MAX:
            self._pool.append(buffer)
        self._on_freed()

    def _take(self, size_bytes: int, others_bytes: int, limit_bytes: int) -> bytearray | None:
        unlimited = others_bytes == 0 or not self._is_limited
        for number, pooled in enumerate(self._pool):
            fits = unlimited or others_bytes + len(pooled) <= limit_bytes
            if fits and size_bytes <= len(pooled) <= 2 * size_bytes:
                self.used_bytes += len(pooled)
                return self._pool.pop(number)
        if not unlimited and others_bytes + size_bytes > limit_bytes:
            return None
        self.used_bytes += size_bytes
        return bytearray(size_bytes)


class FrameBuffer:
    """Extracts frames from the pieces that one connection receives.

    The calls in order: `room` returns where to receive, `received` takes the number of bytes,
    `next_frame` and `consume` take whole frames one by one, `settle` keeps the remainder, and
    `make_room` makes room for the next piece.
    """

    __slots__ = ("_budget", "_data", "_end", "_frame_end", "_own", "_start", "frame_bytes_max")

    def __init__(self, budget: ReceiveBudget, frame_bytes_max: int) -> None:
        self._budget = budget
        self.frame_bytes_max = frame_bytes_max
        """The largest frame; a connection that announces a larger one must be closed."""
        self._own: bytearray | None = None
        self._data = budget.scratch
        self._start = self._end = self._frame_end = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet consumed."""
        return self._end - self._start

    @property
    def holds_memory(self) -> bool:
        """Whether this connection has a buffer of its own."""
        return self._own is not None

    def room(self) -> memoryview:
        """The memory for the next piece; empty until `make_room` has succeeded."""
        if self._own is not None:
            return self._data[self._end :]
        return self._data if self._budget.is_roomy else self._data[:_BUFFER_BYTES_MIN]

    def received(self, size_bytes: int) -> None:
        """Take note of `size_bytes` written to the last `room`."""
        self._end += size_bytes

    def next_frame(self) -> memoryview | None:
        """Return the next frame without its size; the caller releases it, then may `consume` it.

        Raises: MalformedMessage (a size that is negative or over the limit).
        """
        body = self._start + FRAME_SIZE.size
        if body > self._end:
            return None
        end = body + frame_size(self._data, self._start, self.frame_bytes_max)
        if end > self._end:
            return None
        self._frame_end = end
        return self._data[body:end]

    def next_start(self) -> bytes | None:
        """The first two bytes of the next frame, its API key; None until they are received."""
        body = self._start + FRAME_SIZE.size
        return bytes(self._data[body : body + 2]) if body + 2 <= self._end else None

    @property
    def is_tls(self) -> bool:
        """Whether the next bytes begin a TLS handshake, which no frame of a usual size does."""
        return bytes(self._data[self._start : self._end][:2]) == _TLS_HANDSHAKE

    def consume(self) -> None:
        """Remove the frame that `next_frame` returned."""
        self._start = self._frame_end

    def settle(self) -> bool:
        """Move the remainder out of the shared area; False if the budget has no room for it."""
        if self._start == self._end:
            self.close()
        elif self._own is None:
            left = self.buffered_bytes
            own = self._budget.take(max(left, _BUFFER_BYTES_MIN))
            if own is None:
                return False
            own[:left] = self._data[self._start : self._end]
            self._adopt(own, left)
        return True

    def make_room(self) -> bool:
        """Make room in a full buffer: move its content to the front, or double it up to the frame.

        False if the budget has no room.  The caller has taken all whole frames.
        """
        own = self._own
        if own is None or self._end < len(own):
            return True
        left = self.buffered_bytes
        if self._start > 0:
            own[:left] = bytes(self._data[self._start : self._end])
            self._start, self._end = 0, left
            return True
        needed = FRAME_SIZE.size + frame_size(self._data, 0, self.frame_bytes_max)
        grown = self._budget.exchange(own, max(left + _BUFFER_BYTES_MIN, min(2 * left, needed)))
        if grown is None:
            return False
        self._data.release()
        self._adopt(grown, left)
        return True

    def close(self) -> None:
        """Discard all bytes and free the buffer."""
        self._start = self._end = 0
        if self._own is not None:
            self._data.release()
            self._budget.give_back(self._own)
            self._own = None
            self._data = self._budget.scratch

    def _adopt(self, own: bytearray, size_bytes: int) -> None:
        self._own = own
        self._data = memoryview(own)
        self._start, self._end = 0, size_bytes
