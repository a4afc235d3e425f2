"""Reads and checks the batches of a range of offsets; damage is reported and skipped.

The checksum covers neither offset nor length: offsets must rise, and the length must lead to the
next batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import BatchHeader, crc32c
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
)
from odradek.storage.log.log_file import LogFile
from odradek.storage.log.resync import Doubtful, find_valid_batch
from odradek.storage.log.segment_scan import ScanStart, scan_segment

from .log_view import LogView, SegmentView

PIECE_BYTES: Final = 4 << 20
RECORDS_BYTES_MAX: Final = 1 << 30
"""Limit for a decompressed batch: Arrow's byte offsets have 31 bits."""


@dataclass(frozen=True)
class Damage:
    """Bytes of a segment that are no valid batches, and the offsets that they held.

    Both ranges are half-open.
    """

    path: str
    position: int
    position_end: int
    offset_first: int
    offset_end: int
    problem: str


class Batch(NamedTuple):
    """A whole batch with a valid checksum: its place in a piece of the file, and in the file.

    Consecutive batches share pieces.
    """

    header: BatchHeader
    piece: bytes
    at: int
    path: str
    position: int

    @property
    def data(self) -> memoryview:
        """The batch's bytes."""
        return memoryview(self.piece)[self.at : self.at + self.header.size_bytes]


OnDamage = Callable[[Damage], None]


def pass_over(damage: Damage) -> None:
    """Ignore damage, for lookups: the read itself reports it."""


def read_batches(
    view: LogView,
    offset_start: int,
    offset_end: int | None,
    on_damage: OnDamage,
    *,
    high_watermark: int = 0,
) -> Iterator[Batch]:
    """The batches with offsets in [start, end), control batches too; None: to the end of the log.

    The first and the last may extend beyond the range. The end of the log may be torn, but invalid
    bytes below `high_watermark` are damage.  Raises: UnsupportedFormat, LogDirFailed.
    """
    for segment in view.from_offset(offset_start):
        if offset_end is not None and segment.base_offset >= offset_end:
            return
        reader = _SegmentReader(segment, offset_start, offset_end, on_damage, high_watermark)
        yield from reader.batches()


class _SegmentReader:
    """Reads one segment in large pieces."""

    def __init__(
        self,
        segment: SegmentView,
        offset_start: int,
        offset_end: int | None,
        on_damage: OnDamage,
        high_watermark: int,
    ) -> None:
        self._segment = segment
        self._file: LogFile = segment.file
        self._segment_end = (
            segment.base_offset + INT32_MAX + 1
            if segment.offset_end is None
            else segment.offset_end
        )
        self._is_active = segment.offset_end is None
        self._start = offset_start
        self._end = self._segment_end if offset_end is None else offset_end
        self._has_end = offset_end is not None
        self._on_damage = on_damage
        self._high_watermark = high_watermark
        self._next_offset, self._position = segment.floor(offset_start)
        self._piece = b""
        self._piece_position = 0

    def batches(self) -> Iterator[Batch]:
        """Yield the valid batches, from the first that ends at the start offset or after it."""
        file = self._file
        while self._position < file.size_bytes and self._next_offset < self._end:
            at = self._at(HEADER_SIZE_BYTES)
            problem, fields = self._read_header(at)
            if problem is None:
                offset, length, _, _, crc, _, delta = fields[:7]
                if offset >= self._end:
                    return
                size_bytes, next_offset = length + LENGTH_OVERHEAD_BYTES, offset + delta + 1
                is_wanted = next_offset > self._start
                if is_wanted:
                    at = self._at(size_bytes)
                    problem = self._check(at, size_bytes, crc)
            if problem is None:
                if is_wanted:
                    header = tuple.__new__(BatchHeader, fields)
                    yield Batch(header, self._piece, at, file.path, self._position)
                self._position += size_bytes
                self._next_offset = next_offset
            elif not self._skip_damage(problem):
                return

    def _at(self, size_bytes: int) -> int:
        """The position's index in the piece, with as many more bytes in it as the file has."""
        at = self._position - self._piece_position
        if at < 0 or at + size_bytes > len(self._piece):
            wanted = max(PIECE_BYTES, size_bytes)
            left = self._file.size_bytes - self._position
            self._piece = self._file.pread(min(wanted, left), self._position)
            self._piece_position, at = self._position, 0
        return at

    def _read_header(self, at: int) -> tuple[str | None, tuple[int, ...]]:
        """What is wrong with the header, if anything is, and its fields."""
        if at + HEADER_SIZE_BYTES > len(self._piece):
            return "the file ends inside a batch header", ()
        fields = HEADER.unpack_from(self._piece, at)
        offset, length, _, magic, _, _, delta = fields[:7]
        if length < LENGTH_MIN or magic != MAGIC:
            return f"a bad batch header (length {length}, magic {magic})", fields
        end = self._position + length + LENGTH_OVERHEAD_BYTES
        if end > self._file.size_bytes:
            return "the file ends inside a batch", fields
        if offset != self._next_offset or delta < 0:
            if offset < self._next_offset or delta < 0 or offset + delta >= self._segment_end:
                return f"offset {offset} where {self._next_offset} was expected", fields
            following = self._peek(end)
            if len(following) == HEADER_SIZE_BYTES:
                base_offset = HEADER.unpack(following)[0]
                if self._next_offset <= base_offset <= offset + delta:
                    return f"offset {offset} before {base_offset}", fields
        return None, fields

    def _peek(self, position: int) -> bytes:
        at = position - self._piece_position
        if at + HEADER_SIZE_BYTES <= len(self._piece):
            return self._piece[at : at + HEADER_SIZE_BYTES]
        return self._file.pread(HEADER_SIZE_BYTES, position)

    def _check(self, at: int, size_bytes: int, crc: int) -> str | None:
        """What is wrong with the batch, if anything is."""
        data = memoryview(self._piece)[at + ATTRIBUTES_POSITION : at + size_bytes]
        if len(data) < size_bytes - ATTRIBUTES_POSITION:
            return "the file ends inside a batch"
        return None if crc32c(data) == crc else "a wrong checksum"

    def _skip_damage(self, problem: str | None) -> bool:
        """Move to the next valid batch; returns whether there is any.

        Raises: UnsupportedFormat.
        """
        _refuse_old_format(self._file, self._position)
        try:
            found = find_valid_batch(
                self._file,
                self._position + 1,
                offset_first=self._next_offset,
                offset_end=self._segment_end,
                chained=True,
            )
        except Doubtful:
            found = None
        at_end = found is None and self._is_active and not self._has_end
        if at_end and self._next_offset >= self._high_watermark:
            return False  # a batch that is being written, or a torn one
        position_end = self._file.size_bytes if found is None else found.position
        offset_end = self._segment_end if found is None else found.base_offset
        if at_end:
            offset_end = self._high_watermark  # what followed it is unknown
        self._tell(position_end, offset_end, problem or "")
        if found is None:
            return False
        self._position, self._next_offset = found
        return True

    def _tell(self, position_end: int, offset_end: int, problem: str) -> None:
        """Report the damage here, within the range: the rest belongs to another reader."""
        if offset_end <= self._start:
            return
        if self._has_end and offset_end > self._end:
            position = self._segment.position_of(self._end)
            if position is not None and self._position < position < position_end:
                position_end, offset_end = position, self._end
        first = self._next_offset
        self._on_damage(
            Damage(self._file.path, self._position, position_end, first, offset_end, problem)
        )


def _refuse_old_format(file: LogFile, position: int) -> None:
    """Refuse messages of formats 0 and 1: valid ones are no damage.  Raises: UnsupportedFormat."""
    header = file.pread(HEADER_SIZE_BYTES, position)
    if len(header) > 16 and header[16] in (0, 1):
        scan_segment(file, 0, ScanStart(position), index_interval_bytes=1 << 12)
