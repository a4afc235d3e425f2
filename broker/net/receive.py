"""Assembles received bytes into whole frames.

A waiting connection holds no buffer of its own. Pieces arrive in one scratch area shared by all
connections of a loop, and whole frames are handled in place. Only the remainder is kept: the
beginning of a frame, or frames that must wait for an answer. Of a small remainder exactly its bytes
are kept, and the next piece is received behind a copy of them in the scratch area. A larger one
moves into a buffer that grows with the received bytes, never by more than it already holds, and
returns to a pool when it is empty. The size that a frame announces reserves nothing.

All this memory together stays below `queued.max.request.bytes`. Large frames may use up to seven
eighths of it and then wait, so that small requests can still be received. Frames that wait must not
wait for each other. So one of them at a time has the *turn*: as in Kafka, it may exceed the limit
until it is whole. `Connections` closes it if it makes no progress.
"""

import sys
from collections.abc import Callable
from typing import Final

from odradek.protocol.framing import FRAME_SIZE, frame_size

SCRATCH_BYTES: Final = 1 << 20  # also the maximum read from one socket in one wake-up
PROGRESS_BYTES: Final = 1 << 16
"""So many more bytes of an unfinished frame count as progress; fewer do not."""
_SIZE_BYTES: Final = FRAME_SIZE.size
_BUFFER_BYTES_MIN: Final = 1 << 16
_REMAINDER_BYTES_MAX: Final = 1 << 14  # of a small remainder; a buffer is never that small
_POOL_BYTES_MAX: Final = 8 << 20
_TLS_HANDSHAKE: Final = b"\x16\x03"


class ReceiveBudget:
    """The memory of all receive buffers of a broker, and a pool of free ones.

    `size_bytes_max` 0 or less: no limit.  `on_freed` is called whenever memory is freed.
    """

    def __init__(self, size_bytes_max: int, *, on_freed: Callable[[], None] = lambda: None) -> None:
        self._size_bytes_max = size_bytes_max if size_bytes_max > 0 else sys.maxsize
        self._growing_bytes_max = self._size_bytes_max - self._size_bytes_max // 8
        self._on_freed = on_freed
        self._shared_bytes = 0
        """The size of all buffers, except the one that has the turn."""
        self._turn: bytearray | None = None
        self._kept_bytes = 0
        self._pool: list[bytearray] = []
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._note_use()

    @property
    def used_bytes(self) -> int:
        """The size of all buffers."""
        return self._shared_bytes + (0 if self._turn is None else len(self._turn))

    @property
    def keeps(self) -> bool:
        """Whether a request is kept."""
        return self._kept_bytes > 0

    def keep(self, size_bytes: int) -> None:
        """Count a request that is kept in memory of its own; until it is let go, fewer may grow."""
        self._kept_bytes += size_bytes
        self._note_use()

    def let_go(self, size_bytes: int) -> None:
        """The end of what `keep` has begun."""
        self._kept_bytes -= size_bytes
        self._note_use()
        self._on_freed()

    def has_turn(self, buffer: bytearray) -> bool:
        """Whether this buffer may exceed the limit."""
        return buffer is self._turn

    def take(self, size_bytes: int) -> bytearray | None:
        """Return a buffer of at least `size_bytes`; None if others have used up the budget."""
        free_bytes = self._size_bytes_max - self._shared_bytes
        if size_bytes > free_bytes and self._shared_bytes:
            return None
        return self._share(self._find(size_bytes, free_bytes))

    def exchange(self, buffer: bytearray, size_bytes: int) -> bytearray | None:
        """Replace `buffer` by a larger one with the same content; None if it has to wait."""
        has_turn = buffer is self._turn
        free_bytes = self._growth_bytes + len(buffer)
        if size_bytes <= free_bytes and not has_turn:
            grown = self._share(self._find(size_bytes, free_bytes))
            grown[: len(buffer)] = buffer
            self.give_back(buffer)
            return grown
        if not has_turn and (self._turn is not None or self._kept_bytes > self._growing_bytes_max):
            return None
        grown = self._find(size_bytes, 2 * size_bytes)
        grown[: len(buffer)] = buffer
        self._free(buffer)
        self._turn = grown
        self._on_freed()
        return grown

    def shrink(self, buffer: bytearray, remainder: bytearray) -> None:
        """Replace a buffer by what is left in it; if it has the turn, the turn ends."""
        self._share(remainder)
        self.give_back(buffer)

    def give_back(self, buffer: bytearray) -> None:
        """Free a buffer, which is empty and of which no view is alive."""
        self._free(buffer)
        self._on_freed()

    def _note_use(self) -> None:
        """Note the limits that follow from what is used: they are read much more often."""
        self._growth_bytes = self._growing_bytes_max - self._shared_bytes - self._kept_bytes
        """By how much large frames may still grow."""
        self.is_roomy = self._growth_bytes >= SCRATCH_BYTES
        """Whether there is memory to keep everything that one wake-up may read."""

    def _share(self, buffer: bytearray) -> bytearray:
        self._shared_bytes += len(buffer)
        self._note_use()
        return buffer

    def _free(self, buffer: bytearray) -> None:
        if buffer is self._turn:
            self._turn = None
        else:
            self._shared_bytes -= len(buffer)
            self._note_use()
        pooled_bytes = sum(map(len, self._pool))
        if len(buffer) >= _BUFFER_BYTES_MIN and pooled_bytes + len(buffer) <= _POOL_BYTES_MAX:
            self._pool.append(buffer)

    def _find(self, size_bytes: int, size_bytes_max: int) -> bytearray:
        if size_bytes >= _BUFFER_BYTES_MIN:
            for number, pooled in enumerate(self._pool):
                if size_bytes <= len(pooled) <= min(2 * size_bytes, size_bytes_max):
                    return self._pool.pop(number)
        return bytearray(size_bytes)


class FrameBuffer:
    """Extracts frames from the pieces that one connection receives.

    The calls in order: `room` returns where to receive, `received` takes the number of bytes,
    `next_frame` and `consume` take whole frames one by one, `settle` keeps the remainder, and
    `make_room` makes room for the next piece.
    """

    __slots__ = (
        "_budget",
        "_data",
        "_frame_bytes",
        "_noted_bytes",
        "_own",
        "_start",
        "buffered_bytes",
        "frame_bytes_max",
        "progress_ms",
    )

    def __init__(self, budget: ReceiveBudget, frame_bytes_max: int) -> None:
        self._budget = budget
        self.frame_bytes_max = frame_bytes_max
        """The largest frame; a connection that announces a larger one must be closed."""
        self._own: bytearray | None = None
        self._data = budget.scratch
        self._start = self._frame_bytes = 0
        self.buffered_bytes = 0
        """Bytes received and not yet consumed."""
        self._noted_bytes = -PROGRESS_BYTES
        self.progress_ms = 0
        """When the remainder last made progress; valid while this `holds_memory`."""

    @property
    def holds_memory(self) -> bool:
        """Whether this connection has a buffer of its own."""
        return self._own is not None

    @property
    def has_turn(self) -> bool:
        """Whether the buffer may exceed the budget's limit."""
        return self._own is not None and self._budget.has_turn(self._own)

    def room(self) -> memoryview:
        """The memory for the next piece; empty until `make_room` has succeeded."""
        own = self._own
        if own is None:
            return self._data if self._budget.is_roomy else self._data[:_BUFFER_BYTES_MIN]
        if len(own) >= _BUFFER_BYTES_MIN:
            return self._data[self._start + self.buffered_bytes :]
        left = self.buffered_bytes
        scratch = self._budget.scratch
        scratch[:left] = self._buffered()
        return scratch[left:] if self._budget.is_roomy else scratch[left:_BUFFER_BYTES_MIN]

    def received(self, size_bytes: int) -> None:
        """Take note of `size_bytes` written to the last `room`."""
        own = self._own
        if own is not None and len(own) < _BUFFER_BYTES_MIN:  # `room` was behind a copy of it
            left = self.buffered_bytes
            self.close()
            self.buffered_bytes = left
        self.buffered_bytes += size_bytes

    def next_frame(self) -> memoryview | None:
        """Return the next frame without its size; the caller releases it, then may `consume` it.

        Raises: MalformedMessage (a size that is negative or over the limit).
        """
        buffered_bytes, start = self.buffered_bytes, self._start
        if buffered_bytes < _SIZE_BYTES:
            return None
        size_bytes = _SIZE_BYTES + frame_size(self._data, start, self.frame_bytes_max)
        if size_bytes > buffered_bytes:
            return None
        self._frame_bytes = size_bytes
        return self._data[start + _SIZE_BYTES : start + size_bytes]

    def next_start(self) -> bytes | None:
        """The first two bytes of the next frame, its API key; None until they are received."""
        start = self._buffered()[_SIZE_BYTES : _SIZE_BYTES + 2]
        return bytes(start) if len(start) == 2 else None

    @property
    def is_tls(self) -> bool:
        """Whether the next bytes begin a TLS handshake, which no frame of a usual size does."""
        return bytes(self._buffered()[:2]) == _TLS_HANDSHAKE

    def consume(self) -> None:
        """Remove the frame that `next_frame` returned."""
        self._start += self._frame_bytes
        self.buffered_bytes -= self._frame_bytes

    def settle(self, now_ms: int) -> bool:
        """Move the remainder out of the shared area; False if the budget has no room for it."""
        left, own = self.buffered_bytes, self._own
        if left == 0:
            self.close()
            return True
        if own is None:
            small = left <= _REMAINDER_BYTES_MAX
            own = self._budget.take(left if small else max(left, _BUFFER_BYTES_MIN))
            if own is None:
                return False
            own[:left] = self._buffered()
            self._adopt(own, left)
        elif self._start > 0 and (left <= _REMAINDER_BYTES_MAX or self._budget.has_turn(own)):
            self._shrink(own)
        if self._frame_bytes or left >= self._noted_bytes + PROGRESS_BYTES:
            self._frame_bytes, self._noted_bytes, self.progress_ms = 0, left, now_ms
        return True

    def make_room(self) -> bool:
        """Make room in a full buffer: move its content to the front, or double it up to the frame.

        False if it has to wait for memory.  The caller has taken all whole frames.
        """
        own, left = self._own, self.buffered_bytes
        if own is None or len(own) < _BUFFER_BYTES_MIN or self._start + left < len(own):
            return True
        if self._start > 0:
            own[:left] = bytes(self._buffered())
            self._start = 0
            return True
        needed = _SIZE_BYTES + frame_size(self._data, 0, self.frame_bytes_max)
        grown = self._budget.exchange(own, max(left + _BUFFER_BYTES_MIN, min(2 * left, needed)))
        if grown is None:
            return False
        self._data.release()
        self._adopt(grown, left)
        return True

    def _shrink(self, own: bytearray) -> None:
        remainder = bytearray(self._buffered())
        self._data.release()
        self._budget.shrink(own, remainder)
        self._adopt(remainder, len(remainder))

    def close(self) -> None:
        """Discard all bytes and free the buffer."""
        self._start = self.buffered_bytes = 0
        if self._own is not None:
            self._data.release()
            self._budget.give_back(self._own)
            self._own = None
            self._data = self._budget.scratch

    def _adopt(self, own: bytearray, size_bytes: int) -> None:
        self._own = own
        self._data = memoryview(own)
        self._start, self.buffered_bytes = 0, size_bytes

    def _buffered(self) -> memoryview:
        return self._data[self._start : self._start + self.buffered_bytes]
