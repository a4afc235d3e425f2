"""What a producer sent, checked before it enters the log: a walk that builds no objects.

`_walk` has a fast path for the records that nearly everybody writes, with integers of one and two
bytes and no record headers. It only ever accepts: whatever it does not know goes to `_walk_record`,
which defines what a well-formed record is and names what is wrong with one.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from ..errors import BadLength, MalformedMessage
from ..primitives import Buffer
from .batch import BatchHeader
from .record import record_extent, records_of
from .varint import INT64_MAX, read_varint, read_varlong

_RECORD_SIZE_BYTES_MIN: Final = 7
_NULL: Final = 1  # the zigzag of -1


class InvalidRecords(MalformedMessage):
    """A batch whose bytes arrived as sent, but whose records are not acceptable.

    `errors` has (index in the batch, message) for each record at fault; none if it is the batch.
    """

    def __init__(self, message: str, errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.errors = [] if errors is None else errors


class TimestampRange(NamedTuple):
    """The timestamps of a batch as its records have them, whatever the header says."""

    min_timestamp: int
    max_timestamp: int
    offset_delta_of_max_timestamp: int  # of the first record that has it


def validate_records(
    batch: Buffer, header: BatchHeader, *, size_bytes_max: int, keys_required: bool = False
) -> TimestampRange:
    """Walk every record of the batch with which `batch` begins; the checksum is not looked at.

    `size_bytes_max` bounds the records after decompression; `keys_required` refuses null keys
    (compacted topics) and names all records without one.
    Raises: InvalidRecords, MalformedMessage (the compressed data is broken or too large).
    """
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise InvalidRecords(
            f"the batch claims {count} records and a last offset delta of "
            f"{header.last_offset_delta}"
        )
    records = records_of(batch, header, size_bytes_max)
    if count * _RECORD_SIZE_BYTES_MIN > len(records):
        raise InvalidRecords(f"{len(records)} bytes cannot hold {count} records")
    keyless: list[int] = []
    timestamps = _walk(records, count, header.base_timestamp, keyless)
    if keys_required and keyless:
        message = "a compacted topic accepts no record without a key"
        raise InvalidRecords(message, [(index, message) for index in keyless])
    return timestamps


_HEAD = Struct("7B").unpack_from  # never past the end of a well-formed record


def _walk(
    records: memoryview, count: int, base_timestamp: int, keyless: list[int]
) -> TimestampRange:
    """Check that `records` is exactly `count` records; note in `keyless` those with a null key.

    Lengths and deltas stay in zigzag form here: null is 1, every other negative is odd.
    """
    position = index_of_max = 0
    delta_min, delta_max = INT64_MAX, -INT64_MAX - 1
    timestamp_before = -1
    for index in range(count):
        try:
            size, size_high, byte, timestamp, offset, key, next_byte = _HEAD(records, position)
            if size < 128:
                body = position + 1
                timestamp, offset, key, next_byte = byte, timestamp, offset, key
            else:
                body = position + 2
                size = size + (size_high << 7) - 128 if size_high < 128 else -1
            at = body + 4
            if timestamp > 127:
                timestamp = timestamp + (offset << 7) - 128 if offset < 128 else -1
                offset, key, next_byte = key, next_byte, records[body + 5]
                at = body + 5
            if offset > 127:
                offset = offset + (key << 7) - 128 if key < 128 else -1
                key = next_byte
                at += 1
            at += key >> 1
            value = records[at]
            if value > 127:
                at += 1
                value_high = records[at]
                value = value + (value_high << 7) - 128 if value_high < 128 else -1
            at += 1 + (value >> 1)
            fits = (
                offset == index << 1
                and (at + 1 - body) << 1 == size
                and key < 128
                and timestamp >= 0
                and not records[at]
                and not ((key | value) & 1 and _is_negative(key, value))
            )
        except (struct_error, IndexError):
            fits = False
        if fits:
            position = at + 1
        else:
            position, timestamp, key = _walk_record(records, position, index)
        if key == _NULL:
            keyless.append(index)
        if timestamp != timestamp_before:
            timestamp_before = timestamp
            delta = (timestamp >> 1) ^ -(timestamp & 1)
            if delta > delta_max:
                delta_max, index_of_max = delta, index
            if delta < delta_min:
                delta_min = delta
    if position != len(records):
        raise InvalidRecords("bytes follow the last record of the batch")
    if not -INT64_MAX <= base_timestamp + delta_min <= base_timestamp + delta_max <= INT64_MAX:
        raise InvalidRecords("a timestamp does not fit in 64 bits")
    return TimestampRange(base_timestamp + delta_min, base_timestamp + delta_max, index_of_max)


def _is_negative(key: int, value: int) -> bool:
    """Whether one of two zigzag lengths is negative and not null."""
    return (key & 1 == 1 and key != _NULL) or (value & 1 == 1 and value != _NULL)


def _walk_record(records: memoryview, position: int, index: int) -> tuple[int, int, int]:
    """Return where the record ends, and its timestamp delta and key length in zigzag form."""
    try:
        record_end, position = record_extent(records, position)
        timestamp_delta, position = read_varlong(records, position + 1)
        offset_delta, position = read_varint(records, position)
        if offset_delta != index:
            raise BadLength(f"the offset delta is {offset_delta}")
        key_bytes, position = _skip_bytes(records, position, record_end)
        _, position = _skip_bytes(records, position, record_end)
        position = _skip_headers(records, position, record_end)
        if position != record_end:
            raise BadLength(f"{record_end - position} bytes are left over")
    except MalformedMessage as error:
        raise InvalidRecords(f"record {index}: {error}", [(index, str(error))]) from None
    timestamp = (timestamp_delta << 1) ^ (timestamp_delta >> 63)
    return record_end, timestamp, _NULL if key_bytes is None else key_bytes << 1


def _skip_bytes(records: memoryview, position: int, record_end: int) -> tuple[int | None, int]:
    """Return the size of a nullable key or value and the position after it."""
    size_bytes, position = read_varint(records, position)
    if size_bytes == -1:
        return None, position
    if not 0 <= size_bytes <= record_end - position:
        raise BadLength(f"a key or value of {size_bytes} bytes leads out of the record")
    return size_bytes, position + size_bytes


def _skip_headers(records: memoryview, position: int, record_end: int) -> int:
    count, position = read_varint(records, position)
    if count < 0:
        raise BadLength(f"the record claims {count} headers")
    for _ in range(count):
        name_bytes, position = _skip_bytes(records, position, record_end)
        if name_bytes is None:
            raise BadLength("a record header has no key")
        try:
            str(records[position - name_bytes : position], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("the key of a record header is not UTF-8") from None
        _, position = _skip_bytes(records, position, record_end)
    return position
