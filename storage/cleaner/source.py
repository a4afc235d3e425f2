"""Reads the segments to clean, in large chunks of whole, verified batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage, Truncated, UnsupportedVersion
from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    MAGIC,
    BatchHeader,
    check_crc,
    read_header,
    read_magic,
)
from odradek.protocol.records.record import records_of

from ..errors import CorruptLog, UnsupportedFormat
from ..files import FileSystem
from ..log.segment import LOG_SUFFIX
from .scan import RecordScan, scan_ends, scan_keys, scan_records

_CHUNK_BYTES_MIN: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class CleanSegment:
    """A finished segment of the log; `next_offset` is the base offset of the next one."""

    base_offset: int
    size_bytes: int
    next_offset: int


class Chunk(NamedTuple):
    """Whole batches of one segment, with their positions in `data`."""

    path: str
    data: bytes
    file_position: int
    batches: list[tuple[int, BatchHeader]]


def log_path(directory: str, base_offset: int) -> str:
    """The path of a segment's log file."""
    return f"{directory}/{base_offset:020d}{LOG_SUFFIX}"


def read_chunks(
    files: FileSystem, directory: str, segment: CleanSegment, position: int, chunk_bytes: int
) -> Iterator[Chunk]:
    """Read the batches from `position` on, where a batch must begin.

    Verifies the checksums, and that offsets rise, since rebuilt batches get new checksums.
    Raises: CorruptLog, UnsupportedFormat, LogDirFailed.
    """
    path = log_path(directory, segment.base_offset)
    file = files.open_log(path, segment.size_bytes)
    next_offset = segment.base_offset
    wanted_bytes = chunk_bytes = max(chunk_bytes, _CHUNK_BYTES_MIN)
    try:
        while position < segment.size_bytes:
            data = file.pread(min(wanted_bytes, segment.size_bytes - position), position)
            batches, used = _cut(data, path, position, next_offset)
            if used == 0:
                wanted_bytes = _wanted(data, path, position, segment.size_bytes, wanted_bytes)
                continue
            yield Chunk(path, data, position, batches)
            next_offset = batches[-1][1].next_offset
            position += used
            wanted_bytes = chunk_bytes
    finally:
        file.close()


def _cut(
    data: bytes, path: str, file_position: int, next_offset: int
) -> tuple[list[tuple[int, BatchHeader]], int]:
    """The whole batches at the beginning of `data`, and their total size."""
    batches: list[tuple[int, BatchHeader]] = []
    view = memoryview(data)
    at = 0
    try:
        while len(data) - at >= HEADER_SIZE_BYTES:
            header = read_header(data, at)
            end = at + header.size_bytes
            if end > len(data):
                break
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise CorruptLog(f"{path}: position {file_position + at}: offsets do not rise")
            check_crc(view[at:end], header)
            next_offset = header.next_offset
            batches.append((at, header))
            at = end
    except UnsupportedVersion as error:
        if read_magic(data, at) in range(MAGIC):
            raise UnsupportedFormat(f"{path}: position {file_position + at}: {error}") from error
        raise CorruptLog(f"{path}: position {file_position + at}: {error}") from error
    except MalformedMessage as error:
        raise CorruptLog(f"{path}: position {file_position + at}: {error}") from error
    return batches, at


def _wanted(data: bytes, path: str, position: int, size_bytes: int, wanted_bytes: int) -> int:
    """How many bytes to read for the batch at `position`, which is larger than a chunk."""
    try:
        needed_bytes = read_header(data).size_bytes
    except Truncated:
        needed_bytes = HEADER_SIZE_BYTES
    if needed_bytes > size_bytes - position or needed_bytes <= wanted_bytes:
        raise CorruptLog(f"{path}: the file ends inside the batch at {position}")
    return needed_bytes


class Records(NamedTuple):
    """The uncompressed records of a batch: `data`, where the first begins, where each ends."""

    data: bytes
    position: int
    ends: list[int]


class BatchReader:
    """Reads the records of batches, only as far as each caller needs."""

    __slots__ = ("_record_bytes_max",)

    def __init__(self, record_bytes_max: int) -> None:
        """`record_bytes_max`: limit of the decompressed records of one batch."""
        self._record_bytes_max = record_bytes_max

    def scan(self, chunk: Chunk, position: int, header: BatchHeader) -> tuple[Records, RecordScan]:
        """The records of the batch at `position`, with their keys.  Raises: CorruptLog."""
        try:
            data, start, end = self._uncompressed(chunk, position, header)
            scan = scan_records(data, start, end, header.base_offset, header.record_count)
        except MalformedMessage as error:
            raise CorruptLog(f"{place(chunk, position)}: {error}") from error
        if scan.offsets and scan.offsets[-1] > header.last_offset:
            raise CorruptLog(f"{place(chunk, position)}: a record lies behind its batch")
        return Records(data, start, scan.ends), scan

    def keys(
        self, chunk: Chunk, position: int, header: BatchHeader
    ) -> tuple[list[bytes | None], Sequence[int]]:
        """The map keys and the offsets of the batch's records.  Raises: CorruptLog."""
        if not is_gapless(header):
            _, scan = self.scan(chunk, position, header)
            return scan.keys, scan.offsets
        try:
            data, start, end = self._uncompressed(chunk, position, header)
            keys = scan_keys(data, start, end, header.record_count)
        except MalformedMessage as error:
            raise CorruptLog(f"{place(chunk, position)}: {error}") from error
        return keys, range(header.base_offset, header.next_offset)

    def records(self, chunk: Chunk, position: int, header: BatchHeader) -> Records:
        """The records of the batch at `position`, without their keys.  Raises: CorruptLog."""
        try:
            data, start, end = self._uncompressed(chunk, position, header)
            return Records(data, start, scan_ends(data, start, end, header.record_count))
        except MalformedMessage as error:
            raise CorruptLog(f"{place(chunk, position)}: {error}") from error

    def _uncompressed(
        self, chunk: Chunk, position: int, header: BatchHeader
    ) -> tuple[bytes, int, int]:
        """(bytes with the uncompressed records, their start, their end)."""
        end = position + header.size_bytes
        if not header.codec:
            return chunk.data, position + HEADER_SIZE_BYTES, end
        batch = memoryview(chunk.data)[position:end]
        data = bytes(records_of(batch, header, self._record_bytes_max))
        return data, 0, len(data)


def is_gapless(header: BatchHeader) -> bool:
    """Whether the batch has a record at each of its offsets, as when it was produced."""
    return header.last_offset_delta == header.record_count - 1


def place(chunk: Chunk, position: int) -> str:
    """Path and file position of a position in a chunk, for messages."""
    return f"{chunk.path}: position {chunk.file_position + position}"
