"""Reads a segment past damage: yields every good batch, and the bytes between them.

A batch is good if its length, magic and CRC are right and its offsets continue those before it. The
CRC does not cover base offset and leader epoch (KIP-98: the leader writes them), so only adjacent
batches reveal a bad base offset: `expected_offset` is set if they leave one choice.

After damage, every position is a candidate for the next good batch. A record's value may contain
bytes that look like a batch. So if the bad batch's own length leads to a batch boundary, a batch
found inside it counts only if its successors lead to that same boundary. (A value never ends where
its batch ends: the count of the record's headers follows it.)
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import HEADER_SIZE_BYTES, MAGIC, BatchHeader
from odradek.protocol.records.batch import ATTRIBUTES_POSITION, HEADER, LENGTH_MIN, crc32c

from ..log.log_file import LogFile
from ..log.segment_scan import is_whole

_CHUNK_BYTES: Final = 4 << 20
_SEARCH_BYTES: Final = 1 << 20


class Piece(NamedTuple):
    """A batch, or other bytes; a batch has no `problem`, or only that of a wrong base offset.

    `header`: the first bytes, decoded as a header even if they are none; None: too few bytes.
    """

    position: int
    size_bytes: int
    header: BatchHeader | None
    problem: str | None = None
    expected_offset: int | None = None

    @property
    def position_end(self) -> int:
        """Where the next piece begins."""
        return self.position + self.size_bytes

    @property
    def batch(self) -> BatchHeader | None:
        """The header of a batch that is good, or is good with `expected_offset`."""
        if self.header is None or self.problem is None:
            return self.header
        if self.expected_offset is None:
            return None
        return self.header._replace(base_offset=self.expected_offset)


class SegmentReader:
    """Reads one `.log` file; the next good batch must not begin below `next_offset`."""

    __slots__ = (
        "_chunk",
        "_chunk_position",
        "_file",
        "_log_end_offset",
        "_offset_limit",
        "next_offset",
        "position_end",
    )

    def __init__(
        self,
        file: LogFile,
        base_offset: int,
        *,
        offset_end: int | None = None,
        position_end: int | None = None,
        log_end_offset: int | None = None,
    ) -> None:
        """`offset_end`: base offset of the next segment; `position_end`: where to stop reading;
        `log_end_offset`: where the log ends with this file, if that is certain."""
        self._file = file
        self.next_offset = base_offset
        self._offset_limit = base_offset + INT32_MAX + 1
        if offset_end is not None:
            self._offset_limit = min(self._offset_limit, offset_end)
        self.position_end = file.size_bytes if position_end is None else position_end
        self._log_end_offset = log_end_offset
        self._chunk = b""
        self._chunk_position = 0

    def pieces(self, position: int = 0) -> Iterator[Piece]:
        """All bytes from a batch boundary on, as pieces without gaps.  Raises: LogDirFailed."""
        while position < self.position_end:
            piece = self._piece(position)
            if piece.batch is not None:
                self.next_offset = piece.batch.next_offset
            yield piece
            position = piece.position_end

    def read(self, piece: Piece) -> memoryview:
        """The bytes of a piece.  Raises: LogDirFailed."""
        return self._view(piece.position, piece.size_bytes)

    def _piece(self, position: int) -> Piece:
        header = self._header(position)
        problem = self._form_problem(position, header)
        if problem is None and header is not None:
            if not self._crc_is_right(position, header):
                problem = "the checksum is wrong"
            else:
                misplaced, expected = self._place_problem(position, header)
                return Piece(position, header.size_bytes, header, misplaced, expected)
        end = self._next_boundary(position, header if self._fits(position, header) else None)
        if not any(self._view(position, min(end - position, _CHUNK_BYTES))):
            problem = "zeros where a batch should be"
        return Piece(position, end - position, header, problem)

    def _header(self, position: int) -> BatchHeader | None:
        view = self._view(position, HEADER_SIZE_BYTES)
        if len(view) < HEADER_SIZE_BYTES:
            return None
        return BatchHeader._make(HEADER.unpack_from(view))

    def _form_problem(self, position: int, header: BatchHeader | None) -> str | None:
        """What is wrong with length or magic, if anything."""
        if header is None:
            return "the file ends inside a batch header"
        if header.magic != MAGIC:
            return f"the batch has magic {header.magic}, not {MAGIC}"
        if header.batch_length < LENGTH_MIN:
            return f"the batch claims a length of {header.batch_length}"
        if position + header.size_bytes > self.position_end:
            return f"the batch claims {header.size_bytes} bytes and goes past the end of the file"
        return None

    def _fits(self, position: int, header: BatchHeader | None) -> bool:
        """Whether length and magic of a header are right."""
        return self._form_problem(position, header) is None

    def _crc_is_right(self, position: int, header: BatchHeader) -> bool:
        if header.size_bytes > _CHUNK_BYTES:  # a bad length may claim the rest of a large file
            return is_whole(self._file, position)
        view = self._view(position, header.size_bytes)
        return len(view) == header.size_bytes and crc32c(view[ATTRIBUTES_POSITION:]) == header.crc

    def _place_problem(self, position: int, header: BatchHeader) -> tuple[str | None, int | None]:
        """What is wrong with the offsets of a batch with a right checksum, and its correct base
        offset, if that is certain."""
        offset, delta = header.base_offset, header.last_offset_delta
        following = self._header(header.size_bytes + position)
        following_offset = None
        if following is not None and self._fits(position + header.size_bytes, following):
            following_offset = following.base_offset
        elif position + header.size_bytes == self.position_end:
            following_offset = self._offset_limit
        fitting = self.next_offset + delta + 1 == following_offset
        if position + header.size_bytes == self.position_end and self._log_end_offset is not None:
            fitting = self.next_offset + delta + 1 == self._log_end_offset
        expected = self.next_offset if delta >= 0 and fitting else None
        if delta < 0:
            return f"the last offset delta is {delta}", None
        if following_offset == self._offset_limit and fitting and offset != self.next_offset:
            return f"base offset {offset} in the last batch", expected
        if offset < self.next_offset:
            return f"base offset {offset} where at least {self.next_offset} is expected", expected
        if header.last_offset >= self._offset_limit:
            limit = self._offset_limit - 1
            return f"last offset {header.last_offset} where {limit} is the greatest", expected
        if offset != self.next_offset:
            successor = self._successor(position + header.size_bytes, header, following)
            if successor is not None and self.next_offset <= successor <= header.last_offset:
                return f"base offset {offset} before a batch with {successor}", expected
        return None, None

    def _successor(
        self, position: int, before: BatchHeader, header: BatchHeader | None
    ) -> int | None:
        """The base offset of the first good batch from `position` on; `header` is the one there.

        None: there is none, or `header` looks right after the one `before` it.
        """
        if header is not None and self._fits(position, header):
            if header.base_offset > before.last_offset:
                return None
            if self._crc_is_right(position, header):
                return header.base_offset
        for at in self._good_batches(position, self.position_end):
            found = self._header(at)
            return None if found is None else found.base_offset
        return None

    # -- after damage

    def _next_boundary(self, position: int, header: BatchHeader | None) -> int:
        """Where the next batch begins after the bad one at `position`, or the end of the file."""
        if header is not None:
            claimed = position + header.size_bytes
            if claimed == self.position_end or self._may_follow(claimed):
                for inner in self._good_batches(position + 1, claimed):
                    if self._leads_to(inner, claimed):
                        return inner
                return claimed
        return next(self._good_batches(position + 1, self.position_end), self.position_end)

    def _may_follow(self, position: int) -> bool:
        header = self._header(position)
        return (
            header is not None
            and self._fits(position, header)
            and self._offsets_are_possible(header)
        )

    def _leads_to(self, position: int, target: int) -> bool:
        while position < target:
            header = self._header(position)
            if header is None or not self._fits(position, header):
                return False
            position += header.size_bytes
        return position == target

    def _offsets_are_possible(self, header: BatchHeader) -> bool:
        return (
            header.last_offset_delta >= 0
            and self.next_offset <= header.base_offset
            and header.last_offset < self._offset_limit
            and 0 <= header.record_count <= header.last_offset_delta + 1
        )

    def _good_batches(self, position: int, position_end: int) -> Iterator[int]:
        """Positions of good batches that end at or before `position_end`, rising."""
        # The first three bytes of a possible offset have only a few values.
        first, last = self.next_offset >> 40, self._offset_limit >> 40
        tops = b"|".join(re.escape(top.to_bytes(3, "big")) for top in range(first, last + 1))
        pattern = re.compile(b"(?s)(?=(?:" + tops + b").{13}\\x02)")
        while position + HEADER_SIZE_BYTES <= position_end:
            size_bytes = min(_SEARCH_BYTES, position_end - position)
            chunk = self._file.pread(size_bytes, position)
            last_start = len(chunk) - HEADER_SIZE_BYTES
            if last_start < 0:
                return
            for match in pattern.finditer(chunk):
                at = match.start()
                if at > last_start:
                    break
                header = BatchHeader._make(HEADER.unpack_from(chunk, at))
                if (
                    header.batch_length >= LENGTH_MIN
                    and position + at + header.size_bytes <= position_end
                    and self._offsets_are_possible(header)
                    and self._crc_is_right(position + at, header)
                ):
                    yield position + at
            position += last_start + 1

    def _view(self, position: int, size_bytes: int) -> memoryview:
        """`size_bytes` bytes of the file, fewer at its end."""
        size_bytes = max(0, min(size_bytes, self.position_end - position))
        at = position - self._chunk_position
        if at < 0 or at + size_bytes > len(self._chunk):
            wanted = min(max(size_bytes, _CHUNK_BYTES), self.position_end - position)
            self._chunk = self._file.pread(max(0, wanted), position)
            self._chunk_position, at = position, 0
        return memoryview(self._chunk)[at : at + size_bytes]
