"""Reads: from an offset to a span of whole batches.

A consumer continues where its last read ended. So the reader remembers where recent reads ended,
and locating the tail costs no system call. Any other read looks up the sparse index and walks over
the headers of at most `index.interval.bytes`.

Readers of committed records also ask for aborted transactions.  The transaction indexes that they
need stay decoded, as long as these are not too large.
"""

from typing import Final

from .segment import Segment
from .segments import Segments
from .span import Span
from .txn_index import AbortedTransaction, TransactionIndex

PLACES_MAX: Final = 64
DECODED_BYTES_MAX: Final = 8 << 20
"""Of the transaction indexes of one log that stay decoded, about 250,000 aborted transactions."""


class Reader:
    """The read side of one log."""

    __slots__ = ("_decoded", "_places", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._places: dict[int, tuple[Segment, int]] = {}  # next offset -> where it begins
        self._decoded: list[TransactionIndex] = []

    def forget(self) -> None:
        """Forget what is remembered, because segments were truncated or removed."""
        self._places.clear()
        self._forget_decoded()

    def _forget_decoded(self) -> None:
        for index in self._decoded:
            index.forget()
        self._decoded.clear()

    def read(
        self,
        offset: int,
        offset_end: int,
        *,
        log_end_offset: int,
        size_bytes_max: int,
        at_least_one: bool,
    ) -> Span | None:
        """A span from the batch with `offset` on; the log has checked the offsets.

        It ends with the segment, before the batch with `offset_end`, before a damaged range, or at
        `size_bytes_max`, whichever comes first. `at_least_one`: the first batch may exceed
        `size_bytes_max`.  Raises: CorruptLog (DamagedRecords: `offset` is damaged), LogDirFailed.
        """
        place = self._places.get(offset) or self._locate(offset)
        if place is None:
            return None
        segment, position = place
        # The log rolled where the last read ended.  Compaction may also leave empty segments.
        while position >= segment.file.size_bytes:
            following = self._segments.after(segment)
            if following is None:
                return None
            segment, position = following, 0
        if segment.damaged:
            segment.check_intact(offset)
        damage = segment.damage_after(position) if segment.damaged else None
        if damage is not None and offset_end >= damage.offset_first:
            position_end, next_offset = damage.position, damage.offset_first
        elif offset_end >= log_end_offset and segment is self._segments.active:
            position_end, next_offset = segment.file.size_bytes, log_end_offset
        else:
            position_end, next_offset = self._end(segment, offset_end, log_end_offset)
        if position_end - position > size_bytes_max:
            position_end, next_offset = segment.floor_boundary(position, position + size_bytes_max)
            if position_end == position and at_least_one:
                position_end, next_offset = segment.batch_end(position)
        if position_end <= position:
            return None
        self._remember(next_offset, segment, position_end)
        return Span(segment.file, position, position_end - position, next_offset)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """Where the first batch begins that ends at or after `offset`; there may be gaps."""
        for segment in self._segments.from_offset(offset):
            found = segment.find(offset)
            if found is not None:
                return segment, found[1]
        return None

    def _end(self, segment: Segment, offset_end: int, log_end_offset: int) -> tuple[int, int]:
        """(position, offset) where a read in `segment` must end because of `offset_end`."""
        next_base_offset = self._segments.next_base_offset(segment)
        segment_end = log_end_offset if next_base_offset is None else next_base_offset
        if offset_end >= segment_end:
            return segment.file.size_bytes, segment_end
        place = self._places.get(offset_end)
        if place is None or place[0] is not segment:
            found = segment.find(offset_end)
            if found is None:
                return segment.file.size_bytes, segment_end
            place = segment, found[1]
        return place[1], offset_end

    def _remember(self, next_offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if len(places) >= PLACES_MAX and next_offset not in places:
            del places[next(iter(places))]
        places[next_offset] = (segment, position)

    def aborted_transactions(self, offset: int, offset_end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [offset, offset_end).

        Raises: CorruptLog, LogDirFailed.
        """
        found: list[AbortedTransaction] = []
        for segment in self._segments.from_offset(offset):
            index = segment.txn_index
            if not (index.is_empty or index.is_decoded):
                self._make_room(index)
            if index.collect(offset, offset_end, found):
                break
        return found

    def _make_room(self, index: TransactionIndex) -> None:
        """Prepare to keep one more index decoded; the others go if they are too large with it."""
        self._decoded = [each for each in self._decoded if each.is_decoded]
        if sum(each.file.size_bytes for each in (*self._decoded, index)) > DECODED_BYTES_MAX:
            self._forget_decoded()
        self._decoded.append(index)
