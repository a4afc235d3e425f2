"""Scans a segment whose tail is in doubt.

Every batch from a starting position on is read and verified (length, magic, CRC, rising offsets).
The scan ends at the first bad one. It recreates the index entries, and reports changes of the
leader epoch and the batches of idempotent producers. It changes nothing, and needs only a file and
numbers, so that it can run in another process.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fastcrc.crc32 import iscsi

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import BatchHeader
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_MIN,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
)

from ..errors import UnsupportedFormat
from .index import OFFSET_ENTRY, TIME_ENTRY
from .log_file import LogFile

CHUNK_BYTES: Final = 4 << 20
LARGE_BYTES: Final = 64 << 20  # the length may be garbage: check before allocating more
_MAGIC_POSITION: Final = 16


@dataclass(slots=True)
class ScanStart:
    """Where a scan begins, and what is known of the segment before that position."""

    position: int = 0
    next_offset: int = 0
    index_position: int = 0
    max_timestamp: int = -1
    max_timestamp_offset: int = -1
    offset_entries: bytes = b""
    time_entries: bytes = b""


@dataclass(slots=True)
class SegmentScan:
    """What a scan found; `problem` says why it ended before the end of the file."""

    position_end: int
    next_offset: int
    index_position: int
    max_timestamp: int
    max_timestamp_offset: int
    problem: str | None = None
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    epochs: list[tuple[int, int]] = field(default_factory=list)


OnProducerBatch = Callable[[BatchHeader, memoryview], None]
Report = Callable[[int], None]


def scan_segment(
    file: LogFile,
    base_offset: int,
    start: ScanStart,
    *,
    index_interval_bytes: int,
    offset_end: int | None = None,
    gap_at_end: bool = True,
    on_producer_batch: OnProducerBatch | None = None,
    report: Report | None = None,
) -> SegmentScan:
    """Verify the batches from `start` to the end of the file.

    `offset_end`: where the next segment begins. `gap_at_end`: whether offsets may be missing before
    the last batch (compaction leaves gaps, appends don't). `on_producer_batch` gets each valid
    batch with a producer id; the view is only valid during the call. `report` gets the number of
    bytes scanned since its last call.  Raises: UnsupportedFormat, LogDirFailed.
    """
    scan = SegmentScan(
        position_end=start.position,
        next_offset=max(start.next_offset, base_offset),
        index_position=start.index_position,
        max_timestamp=start.max_timestamp,
        max_timestamp_offset=start.max_timestamp_offset,
    )
    scanner = _Scanner(scan, file, base_offset, index_interval_bytes, on_producer_batch)
    scanner.gap_at_end = gap_at_end
    if offset_end is not None:
        scanner.offset_max = min(scanner.offset_max, offset_end - 1)
    if start.time_entries:
        scanner.time_indexed = TIME_ENTRY.unpack_from(start.time_entries, -TIME_ENTRY.size)[0]
    position, size_bytes = start.position, file.size_bytes
    buffer = bytearray(min(CHUNK_BYTES, size_bytes - position))
    while position < size_bytes:
        view = memoryview(buffer)[: min(len(buffer), size_bytes - position)]
        filled = file.pread_into(view, position)
        used = scanner.scan_chunk(view[:filled], position)
        position += used
        if report is not None:
            report(used)
        if scan.problem is None and used == 0:
            if scanner.needed_bytes > size_bytes - position or filled < len(view):
                scan.problem = "the file ends inside a batch"
            elif scanner.needed_bytes > LARGE_BYTES and not is_whole(file, position):
                scan.problem = "a wrong checksum"
            else:
                buffer = bytearray(scanner.needed_bytes)
        if scan.problem is not None:
            _refuse_old_format(file, position)
            break
    scan.position_end = position
    return scan


def is_whole(file: LogFile, position: int) -> bool:
    """Whether the checksum of the batch at `position` is right; reads it in chunks.

    The caller must have read its header already.  Raises: LogDirFailed.
    """
    fields = HEADER.unpack(file.pread(HEADER_SIZE_BYTES, position))
    end = position + fields[1] + LENGTH_OVERHEAD_BYTES
    at, crc = position + ATTRIBUTES_POSITION, 0
    while at < end:
        chunk = file.pread(min(CHUNK_BYTES, end - at), at)
        if not chunk:
            return False
        crc = iscsi(chunk, crc)
        at += len(chunk)
    return bool(crc == fields[4])


class _Scanner:
    """The loop over the batches of one chunk, and its state from chunk to chunk."""

    __slots__ = (
        "base_offset",
        "file",
        "gap_at_end",
        "index_interval_bytes",
        "needed_bytes",
        "offset_max",
        "on_producer_batch",
        "scan",
        "time_indexed",
    )

    def __init__(
        self,
        scan: SegmentScan,
        file: LogFile,
        base_offset: int,
        index_interval_bytes: int,
        on_producer_batch: OnProducerBatch | None,
    ) -> None:
        self.scan = scan
        self.file = file
        self.base_offset = base_offset
        self.offset_max = base_offset + INT32_MAX
        self.gap_at_end = True
        self.index_interval_bytes = index_interval_bytes
        self.on_producer_batch = on_producer_batch
        self.needed_bytes = HEADER_SIZE_BYTES
        self.time_indexed = -1

    def scan_chunk(self, view: memoryview, chunk_position: int) -> int:
        """Verify the whole batches in `view`; return their size in bytes.

        Sets `needed_bytes` to the size of the batch that did not fit, or `scan.problem`.
        """
        scan, unpack_from, on_producer_batch = self.scan, HEADER.unpack_from, self.on_producer_batch
        next_offset, offset_max = scan.next_offset, self.offset_max
        max_timestamp, latest = scan.max_timestamp, scan.epochs[-1][0] if scan.epochs else -1
        index_after = scan.index_position + self.index_interval_bytes - chunk_position
        filled = len(view)
        header_max = filled - HEADER_SIZE_BYTES
        at = 0
        while at <= header_max:
            fields = unpack_from(view, at)
            offset, length, epoch, magic, crc, _, delta, _, timestamp, producer_id, _, _, _ = fields
            end = at + length + LENGTH_OVERHEAD_BYTES
            if length < LENGTH_MIN or magic != MAGIC:
                scan.problem = f"a bad batch header (length {length}, magic {magic})"
                break
            if end > filled:
                self.needed_bytes = end - at
                break
            if iscsi(view[at + ATTRIBUTES_POSITION : end]) != crc:
                scan.problem = "a wrong checksum"
                break
            last_offset = offset + delta
            if offset != next_offset or delta < 0 or last_offset > offset_max or epoch > latest:
                scan.problem = self._judge(fields, next_offset, chunk_position + end)
                if scan.problem is not None:
                    break
                latest = scan.epochs[-1][0] if scan.epochs else -1
            if timestamp > max_timestamp:
                max_timestamp = timestamp
                scan.max_timestamp, scan.max_timestamp_offset = timestamp, last_offset
            if at > index_after:
                index_after = at + self.index_interval_bytes
                self._add_index_entry(last_offset, chunk_position + at)
            if producer_id >= 0 and on_producer_batch is not None:
                on_producer_batch(BatchHeader._make(fields), view[at:end])
            next_offset = last_offset + 1
            at = end
        scan.next_offset = next_offset
        return at

    def _judge(self, fields: tuple[int, ...], next_offset: int, position_end: int) -> str | None:
        """What is wrong with the offset or leader epoch, if anything.

        The broker sets both, so the checksum does not cover them. If a flipped bit made one of them
        greater, the next batch seems to go back.
        """
        offset, epoch, last_offset = fields[0], fields[2], fields[0] + fields[6]
        if offset < next_offset or last_offset < offset or last_offset > self.offset_max:
            return f"offset {offset} where {next_offset} was expected"
        following = self.file.pread(HEADER_SIZE_BYTES, position_end)
        base_offset, following_epoch = last_offset + 1, epoch
        if len(following) == HEADER_SIZE_BYTES and following[_MAGIC_POSITION] == MAGIC:
            base_offset, _, following_epoch = HEADER.unpack_from(following)[:3]
        elif offset > next_offset and not following and not self.gap_at_end:
            return f"offset {offset} where {next_offset} was expected, in the last batch"
        if offset > next_offset and next_offset <= base_offset <= last_offset:
            return f"offset {offset} where {next_offset} was expected, before {base_offset}"
        epochs = self.scan.epochs
        latest = epochs[-1][0] if epochs else -1
        if epoch > latest and following_epoch >= epoch:
            epochs.append((epoch, offset))
        return None

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        scan = self.scan
        scan.index_position = position
        scan.offset_entries += OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
        if scan.max_timestamp > self.time_indexed:
            self.time_indexed = scan.max_timestamp
            scan.time_entries += TIME_ENTRY.pack(
                scan.max_timestamp, scan.max_timestamp_offset - self.base_offset
            )


def _refuse_old_format(file: LogFile, position: int) -> None:
    """Raise if there is a valid message of magic 0 or 1: it is data, not garbage to cut off.

    Such a message begins with: i64 offset, i32 size, u32 CRC-32 of the rest, i8 magic.
    Raises: UnsupportedFormat.
    """
    header = file.pread(17, position)
    if len(header) < 17 or header[16] not in (0, 1):
        return
    size_bytes = int.from_bytes(header[8:12], "big")
    if not 14 <= size_bytes <= file.size_bytes - position - 12:
        return
    message = file.pread(size_bytes, position + 12)
    if zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big"):
        raise UnsupportedFormat(
            f"{file.path} holds messages of format {header[16]} at position {position}; "
            "only format 2 (Kafka 0.11 and later) can be read"
        )
