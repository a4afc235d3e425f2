"""The 61-byte header of a record batch, format v2 (KIP-98), and the fields that a broker changes.

Functions work on bytes-like data in place, and never copy a batch. The checksum covers the bytes
from the attributes to the end, so base offset and leader epoch can change without a new checksum.
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
LENGTH_OVERHEAD_BYTES: Final = 12  # base offset and length, which the length does not include

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_ATTRIBUTES_MASK: Final = 0x7F
"""Those that have a meaning; Kafka clears all others where it sets the timestamp of a batch."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

LENGTH_MIN: Final = HEADER_SIZE_BYTES - LENGTH_OVERHEAD_BYTES
ATTRIBUTES_POSITION: Final = 21  # the checksum covers the bytes from here on
_MAGIC_POSITION = 16
_CRC_POSITION = 17
_MAX_TIMESTAMP_POSITION = 35

_PRODUCER_POSITION: Final = 43
HEADER: Final = Struct(">qiibIhiqqqhii")  # the fields of `BatchHeader`
_INT64 = Struct(">q")
_PRODUCER = Struct(">qh")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")


class BatchHeader(NamedTuple):
    """The fields of a batch header, in the order of the bytes.

    Only `magic` and the minimum of `batch_length` are checked; the rest is as the peer sent it.
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
        """Offset of the last record that the batch had when it was written; inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """A number from 0 to 7; 5 to 7 are undefined (see `Codec` in compression.py)."""
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
        """Whether the batch has a control record, such as a transaction marker, and no data."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time when compaction may drop tombstones (KIP-534)."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, which wraps after 2^31 - 1; -1 without sequences."""
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
    return tuple.__new__(BatchHeader, fields)  # 0.1 µs faster than _make


def read_magic(buffer: Buffer, position: int = 0) -> int:
    """Return the format number, which is at the same position in all formats.

    Raises: Truncated.
    """
    try:
        magic = buffer[position + _MAGIC_POSITION]
    except IndexError:
        raise Truncated("the bytes end before the magic byte") from None
    return magic - 256 if magic > 127 else magic


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch; an incomplete last batch is omitted.

    To reject one, compare the end of the last batch with the end of the buffer.
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
    """Verify the checksum of the batch at the beginning of `batch`; `header` is its header.

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
    """Set base offset and leader epoch, in place; the checksum does not cover them."""
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, 12, leader_epoch)


def set_append_time(batch: bytearray | memoryview, wall_ms: int) -> None:
    """Set the timestamp of all records to `wall_ms` (LogAppendTime), in place; renew the checksum.

    Attributes without a meaning are cleared. `batch` must be exactly one batch.
    """
    batch[ATTRIBUTES_POSITION + 1] |= LOG_APPEND_TIME
    _set_max_timestamp(batch, wall_ms)


def set_create_time(batch: bytearray | memoryview, max_timestamp: int) -> None:
    """Set CreateTime and `max_timestamp`, the records' greatest, in place; renew the checksum.

    For a header that does not match its records. Attributes without a meaning are cleared. `batch`
    must be exactly one batch.
    """
    batch[ATTRIBUTES_POSITION + 1] &= ~LOG_APPEND_TIME & 0xFF
    _set_max_timestamp(batch, max_timestamp)


def _set_max_timestamp(batch: bytearray | memoryview, max_timestamp: int) -> None:
    _INT64.pack_into(batch, _MAX_TIMESTAMP_POSITION, max_timestamp)
    batch[ATTRIBUTES_POSITION] = 0
    batch[ATTRIBUTES_POSITION + 1] &= _ATTRIBUTES_MASK
    seal(batch)


def set_producer(batch: bytearray | memoryview, producer_id: int, producer_epoch: int) -> None:
    """Give one batch another producer, and a new checksum."""
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch)
    seal(batch)


def seal(batch: bytearray | memoryview) -> None:
    """Compute the checksum and write it into the header; `batch` must be exactly one batch."""
    crc = crc32.iscsi(memoryview(batch)[ATTRIBUTES_POSITION:])
    _UINT32.pack_into(batch, _CRC_POSITION, crc)
