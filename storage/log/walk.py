"""Walks over the batch headers of a segment, for look-ups and for the fields in headers.

Checksums are not verified here (segment_scan.py does that); lengths are, so that a walk ends.
"""

import struct
from collections.abc import Iterator
from typing import Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import HEADER_SIZE_BYTES, BatchHeader, read_header
from odradek.protocol.records.batch import LENGTH_MIN, LENGTH_OVERHEAD_BYTES, MAGIC

from ..errors import CorruptLog
from .log_file import LogFile

_CHUNK_BYTES: Final = 4096  # the default of index.interval.bytes
_LONG_CHUNK_BYTES: Final = 1 << 16
_PREFIX: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, offset delta


def walk_headers(
    file: LogFile, position: int, position_end: int
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch in [position, position_end).

    Raises: CorruptLog (also when the last batch does not end at `position_end`), LogDirFailed.
    """
    chunk, chunk_position = b"", position
    while position < position_end:
        at = position - chunk_position
        if at + HEADER_SIZE_BYTES > len(chunk):
            size_bytes = min(_LONG_CHUNK_BYTES, position_end - position)
            chunk, chunk_position, at = file.pread(size_bytes, position), position, 0
        try:
            header = read_header(chunk, at)
        except MalformedMessage as error:
            raise CorruptLog(f"{file.path}: position {position}: {error}") from error
        if position + header.size_bytes > position_end:
            raise CorruptLog(f"{file.path}: the batch at {position} goes past {position_end}")
        yield position, header
        position += header.size_bytes


def find_batch(
    file: LogFile,
    offset: int,
    position: int,
    position_end: int,
    base_offsets: tuple[int, int] | None = None,
) -> tuple[int, int] | None:
    """(base offset, position) of the first batch that ends at or after `offset`, if any.

    `base_offsets`: the range (inclusive) for the base offset of the batch at `position`.
    Raises: CorruptLog, LogDirFailed.
    """
    for at, base_offset, last_offset, _ in _walk(file, position, position_end, base_offsets):
        if last_offset >= offset:
            return base_offset, at
    return None


def floor_boundary(
    file: LogFile,
    position: int,
    position_end: int,
    limit: int,
    base_offsets: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """(position, offset) of the last batch boundary in [position, limit]; limit < position_end.

    The offset is the base offset of the batch that begins there; `base_offsets` as in
    `find_batch`.  Raises: CorruptLog, LogDirFailed.
    """
    for at, base_offset, _, batch_end in _walk(file, position, position_end, base_offsets):
        if batch_end > limit:
            return at, base_offset
    raise CorruptLog(f"{file.path}: the batches end before {position_end}")


def batch_end(file: LogFile, position: int, position_end: int) -> tuple[int, int]:
    """(end position, next offset) of the batch at `position`.  Raises: CorruptLog, LogDirFailed."""
    for _, _, last_offset, end in _walk(file, position, position_end):
        return end, last_offset + 1
    raise CorruptLog(f"{file.path}: no batch at {position}")


def _walk(
    file: LogFile,
    position: int,
    position_end: int,
    base_offsets: tuple[int, int] | None = None,
) -> Iterator[tuple[int, int, int, int]]:
    """Yield position, base offset, last offset and end position; faster than `walk_headers`."""
    chunk, chunk_position = b"", position
    while position < position_end:
        at = position - chunk_position
        if at + _PREFIX.size > len(chunk):
            size_bytes = min(_CHUNK_BYTES, position_end - position)
            chunk, chunk_position, at = file.pread(size_bytes, position), position, 0
            if len(chunk) < _PREFIX.size:
                raise CorruptLog(f"{file.path}: the file ends inside the batch at {position}")
        base_offset, length, magic, last_offset_delta = _PREFIX.unpack_from(chunk, at)
        end = position + length + LENGTH_OVERHEAD_BYTES
        if length < LENGTH_MIN or end > position_end or magic != MAGIC:
            raise CorruptLog(
                f"{file.path}: bad batch at {position} (length {length}, magic {magic})"
            )
        if base_offsets is not None:
            if not base_offsets[0] <= base_offset <= base_offsets[1]:
                raise CorruptLog(f"{file.path}: batch {base_offset} at {position}")
            base_offsets = None
        yield position, base_offset, base_offset + last_offset_delta, end
        position = end
