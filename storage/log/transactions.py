"""The transactions of a partition that bound its last stable offset.

A transaction is *open* until its marker is in the log, and *unreplicated* until the high watermark
has passed the marker: until then another leader may cut it off again.  The first unstable offset is
where the earliest of both begins.

Transactions begin in the order of their first offsets and end in the order of their markers, so
both kinds are queues.  An unreplicated transaction is forgotten if a later one began before it: the
later one bounds the offset at least as long, even if its own marker is cut off, since it is then
open again.  So the first offsets in the queue rise, and the first one is the least.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from odradek.protocol.primitives import INT64_MAX

NONE_UNSTABLE: Final = INT64_MAX


class Transactions:
    """Open and unreplicated transactions; every method takes constant time, amortized."""

    __slots__ = ("_open", "first_unstable_offset", "unreplicated")

    def __init__(self, open_ones: Iterable[tuple[int, int]] = ()) -> None:
        """`open_ones`: producer ids and first offsets."""
        self._open = OrderedDict(sorted(open_ones, key=lambda transaction: transaction[1]))
        self.unreplicated: deque[tuple[int, int]] = deque()
        """Offsets of the marker, which the high watermark must still pass, and of the first
        record; both rise."""
        self.first_unstable_offset = NONE_UNSTABLE
        """Where the earliest of them begins, or `NONE_UNSTABLE`."""
        self._look_again()

    def first_open_offset(self, *, except_of: int = -1) -> int | None:
        """First offset of the earliest open transaction, not counting that of `except_of`."""
        for producer_id, first_offset in self._open.items():
            if producer_id != except_of:
                return first_offset
        return None

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Note a transaction that begins at the end of the log."""
        self._open[producer_id] = first_offset
        if first_offset < self.first_unstable_offset:
            self.first_unstable_offset = first_offset

    def end(self, producer_id: int, marker_offset: int) -> None:
        """Note a marker at the end of the log; the producer may have no transaction to end."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[-1][1] >= first_offset:
            unreplicated.pop()
        unreplicated.append((marker_offset, first_offset))

    def replicated(self, high_watermark: int) -> None:
        """Forget the transactions whose markers lie below the high watermark."""
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[0][0] < high_watermark:
            unreplicated.popleft()
        self._look_again()

    def take_unreplicated(self, other: "Transactions", offset_end: int) -> None:
        """Replace the unreplicated ones by those of `other` whose markers are below `offset_end`.

        The rest is open again if its records are below it.
        """
        self.unreplicated = deque(each for each in other.unreplicated if each[0] < offset_end)
        self._look_again()

    def _look_again(self) -> None:
        first = self.unreplicated[0][1] if self.unreplicated else NONE_UNSTABLE
        first_open = self.first_open_offset()
        self.first_unstable_offset = first if first_open is None else min(first, first_open)
