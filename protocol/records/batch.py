"""The 61 bytes before the records of a batch, format v2 (KIP-98), and the fields a broker patches.

A batch is never copied here: every function takes bytes-like data and a position. The checksum
covers the bytes from the attributes to the end, so base offset and leader epoch may change freely.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from fastcrc import crc32

from ..errors import BadChecksum, BadLength, Truncated, UnsupportedVersion
from ..primitives import Buffer

HEADER_SIZE_BYTES: Final = 61
MAGIC: Final = 2
LENGTH_OVERHEAD_BYTES: Final = 12  # base offset and the length itself, which the length leaves out

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

LENGTH_MIN: Final = HEADER_SIZE_BYTES - LENGTH_OVERHEAD_BYTES
ATTRIBUTES_POSITION: Final = 21  # where the bytes begin that the checksum covers
_MAGIC_POSITION = 16
_CRC_POSITION = 17
_MAX_TIMESTAMP_POSITION = 35

HEADER: Final = Struct(">qiibIhiqqqhii")  # the fields of `BatchHeader`
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")


class BatchHeader(NamedTuple):
    """The fixed fields of one batch, in the order of the bytes.

    Only `magic` and the lower bound of `batch_length` were checked; all else is what a peer wrote.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch held when it was written; inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0..7; 5 to 7 mean nothing (`Codec` in compression.py)."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, set by the broker."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker for brokers and not data."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is when compaction may drop tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, which wraps after 2^31 - 1; -1 without sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`; the records after it may be missing.

    Raises: Truncated, BadLength, UnsupportedVersion (magic 0 and 1, or unknown).
    """
    try:
        fields = HEADER.unpack_from(buffer, position)
    except struct_error:
        if len(buffer) - position > _MAGIC_POSITION and read_magic(buffer, position) != MAGIC:
            raise UnsupportedVersion("the batch is not in format v2") from None
        raise Truncated("the bytes end inside a batch header") from None
    if fields[3] != MAGIC:
        raise UnsupportedVersion(f"the batch has magic {fields[3]}, not {MAGIC}")
    if fields[1] < LENGTH_MIN:
        raise BadLength(f"the batch claims a length of {fields[1]}")
    return tuple.__new__(BatchHeader, fields)  # _make takes 0.1 µs more


def read_magic(buffer: Buffer, position: int = 0) -> int:
    """Return the format number, which lies at the same place in all formats.

    Raises: Truncated.
    """
    try:
        magic = buffer[position + _MAGIC_POSITION]
    except IndexError:
        raise Truncated("the bytes end before the magic byte") from None
    return magic - 256 if magic > 127 else magic


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; the end of an unfinished last one is left out.

    Who may not accept a rest compares the last batch's end with the buffer's.
    Raises: BadLength, UnsupportedVersion.
    """
    position = 0
    while position < len(buffer):
        try:
            header = read_header(buffer, position)
        except Truncated:
            return
        position_end = position + header.batch_length + LENGTH_OVERHEAD_BYTES
        if position_end > len(buffer):
            return
        yield position, header
        position = position_end


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C (Castagnoli) of `data`."""
    return crc32.iscsi(data)


def check_crc(batch: Buffer, header: BatchHeader) -> None:
    """Compare the checksum in `header` with that of the bytes of `batch`, which begins with it.

    Raises: Truncated, BadChecksum.
    """
    size_bytes = header.batch_length + LENGTH_OVERHEAD_BYTES
    if len(batch) < size_bytes:
        raise Truncated(f"{size_bytes} bytes are announced, {len(batch)} are there")
    crc = crc32.iscsi(memoryview(batch)[ATTRIBUTES_POSITION:size_bytes])
    if crc != header.crc:
        raise BadChecksum(f"the batch has CRC {header.crc:#010x}, its bytes have {crc:#010x}")


def set_offset_and_epoch(
    batch: bytearray | memoryview, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch its place in the log, in place; the checksum does not cover it."""
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, 12, leader_epoch)


def set_append_time(batch: bytearray | memoryview, wall_ms: int) -> None:
    """Make `wall_ms` the timestamp of every record (LogAppendTime), in place, with a new checksum.

    `batch` must be exactly one batch.
    """
    batch[ATTRIBUTES_POSITION + 1] |= LOG_APPEND_TIME
    _set_max_timestamp(batch, wall_ms)


def set_create_time(batch: bytearray | memoryview, max_timestamp: int) -> None:
    """Correct a header that does not say what its records do, in place, with a new checksum.

    The timestamps are the records' own (CreateTime), `max_timestamp` the largest of them.
    `batch` must be exactly one batch.
    """
    batch[ATTRIBUTES_POSITION + 1] &= ~LOG_APPEND_TIME & 0xFF
    _set_max_timestamp(batch, max_timestamp)


def _set_max_timestamp(batch: bytearray | memoryview, max_timestamp: int) -> None:
    _INT64.pack_into(batch, _MAX_TIMESTAMP_POSITION, max_timestamp)
    seal(batch)


def seal(batch: bytearray | memoryview) -> None:
    """Write the checksum of the bytes into the header; `batch` must be exactly one batch."""
    crc = crc32.iscsi(memoryview(batch)[ATTRIBUTES_POSITION:])
    _UINT32.pack_into(batch, _CRC_POSITION, crc)
