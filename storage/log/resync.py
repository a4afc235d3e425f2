"""Finds the next valid batch after a bad one.

After damage in the middle of a log there is one; after a torn tail there is none. Candidates are
positions where the base offset and the magic byte could be right; the checksum decides.
"""

import re
from typing import Final, NamedTuple

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records.batch import (
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
)

from .log_file import LogFile
from .segment_scan import is_whole

_CHUNK_BYTES: Final = 4 << 20
_SPARE_BYTES: Final = 64 << 20


class FoundBatch(NamedTuple):
    """A whole batch with a valid checksum."""

    position: int
    base_offset: int


class Doubtful(Exception):
    """Too many bytes look like batches to check them all."""


def find_valid_batch(
    file: LogFile,
    position: int,
    *,
    offset_first: int,
    offset_end: int | None = None,
    chained: bool = False,
) -> FoundBatch | None:
    """The first whole valid batch at or after `position` with offsets in the range.

    `chained`: only a batch that ends at the end of the file or where the next one seems to begin,
    since records may contain whole batches of another log.

    Raises: Doubtful (records that imitate batch headers make the search too long), LogDirFailed.
    """
    size_bytes = file.size_bytes
    left_bytes = 4 * (size_bytes - position) + _SPARE_BYTES  # the budget for checksums
    offset_last = offset_first + INT32_MAX if offset_end is None else offset_end - 1
    high_words = {offset >> 32 for offset in (offset_first, offset_last)}
    pattern = _candidates(high_words)
    while position + HEADER_SIZE_BYTES <= size_bytes:
        chunk = file.pread(_CHUNK_BYTES, position)
        for match in pattern.finditer(chunk):
            at = match.start()
            if at + HEADER_SIZE_BYTES > len(chunk):
                break
            fields = HEADER.unpack_from(chunk, at)
            offset, length, delta = fields[0], fields[1], fields[6]
            end = position + at + length + LENGTH_OVERHEAD_BYTES
            if length < LENGTH_MIN or end > size_bytes or delta < 0:
                continue
            if offset < offset_first or offset + delta > offset_last:
                continue
            left_bytes -= length
            if left_bytes < 0:
                raise Doubtful(f"{file.path}: no end of what may be a batch after {position}")
            if not is_whole(file, position + at):
                continue
            if not chained or _continues(file, end, offset + delta):
                return FoundBatch(position + at, offset)
        if len(chunk) < _CHUNK_BYTES:
            return None
        position += len(chunk) - HEADER_SIZE_BYTES + 1
    return None


def _continues(file: LogFile, position: int, last_offset: int) -> bool:
    """Whether a batch with later offsets seems to begin here, or the file ends."""
    header = file.pread(HEADER_SIZE_BYTES, position)
    if len(header) < HEADER_SIZE_BYTES:
        return not header
    offset, length, _, magic = HEADER.unpack_from(header)[:4]
    end = position + length + LENGTH_OVERHEAD_BYTES
    return bool(
        magic == MAGIC and length >= LENGTH_MIN and end <= file.size_bytes and offset > last_offset
    )


def _candidates(high_words: set[int]) -> re.Pattern[bytes]:
    """Matches (they may overlap) these upper halves of a base offset, and the magic byte."""
    words = b"|".join(re.escape(word.to_bytes(4, "big")) for word in sorted(high_words))
    return re.compile(b"(?=(?:" + words + b").{12}" + re.escape(bytes([MAGIC])) + b")", re.DOTALL)
