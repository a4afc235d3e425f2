"""Validates the records of a producer before they are appended, without creating objects.

`_walk` has a fast path for the most common records, which have varints of one and two bytes and no
record headers. It only accepts records: any other record goes to `_walk_record`, which defines what
a valid record is and reports what is wrong with one.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from ..errors import BadLength, MalformedMessage
from ..primitives import INT64_MAX, Buffer
from .batch import BatchHeader
from .record import record_extent, records_of
from .varint import read_varint, read_varlong

_RECORD_SIZE_BYTES_MIN: Final = 7
_NULL: Final = 1  # the zigzag of -1
_UNFIT: Final = -1  # a zigzag-encoded size that fails the check of the fast path


class InvalidRecords(MalformedMessage):
    """A batch that arrived intact, but has invalid records.

    `errors` has (index in the batch, message) for each bad record; it is empty if the batch itself
    is bad.
    """

    def __init__(self, message: str, errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.errors = [] if errors is None else errors


class ValidRecords(NamedTuple):
    """What the records of a batch say, whatever its header says."""

    min_timestamp: int
    max_timestamp: int
    offset_delta_of_max_timestamp: int  # of the first record that has it
    size_bytes: int  # of all records, decompressed


def validate_records(
    batch: Buffer, header: BatchHeader, *, size_bytes_max: int, keys_required: bool = False
) -> ValidRecords:
    """Check every record of the batch at the beginning of `batch`, but not the checksum.

    `size_bytes_max` limits the decompressed size of the records. `keys_required` (compacted topics)
    rejects null keys and reports all records without a key.
    Raises: InvalidRecords, MalformedMessage (the compressed data is corrupt or too large).
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
    delta_min, delta_max, index_of_max = _walk(records, count, keyless)
    if keys_required and keyless:
        message = "a compacted topic accepts no record without a key"
        raise InvalidRecords(message, [(index, message) for index in keyless])
    base_timestamp = header.base_timestamp
    if base_timestamp + delta_max > INT64_MAX or base_timestamp + delta_min < -INT64_MAX:
        raise InvalidRecords("a timestamp does not fit in 64 bits")
    found = base_timestamp + delta_min, base_timestamp + delta_max, index_of_max, len(records)
    return tuple.__new__(ValidRecords, found)  # 0.1 µs faster than its constructor


_HEAD = Struct("7B").unpack_from  # never past the end of a well-formed record

# In `_walk` lengths and deltas stay zigzag-encoded: null is 1, and all other negative values are
# odd. `size_last` is the position of the last byte of the record's size; `at` moves over the fields
# after it. It is one function because a call per record would cost as much as the checks.


def _walk(records: memoryview, count: int, keyless: list[int]) -> tuple[int, int, int]:
    """Check that `records` is exactly `count` records; add those with a null key to `keyless`.

    Return the least and the greatest timestamp delta, and the first index of the greatest.
    """
    position = index_of_max = 0
    delta_min = delta_max = 0
    timestamp_before = -1
    for expected in range(0, count << 1, 2):
        try:
            size, size_high, byte, timestamp, offset, key, next_byte = _HEAD(records, position)
            if size < 128:
                size_last = position
                timestamp, offset, key, next_byte = byte, timestamp, offset, key
            else:
                size_last = position + 1
                size = size + (size_high << 7) - 128 if size_high < 128 else _UNFIT
            at = size_last + 5
            if timestamp > 127:
                if offset > 127:
                    size = _UNFIT
                timestamp += (offset << 7) - 128
                offset, key, next_byte = key, next_byte, records[at + 1]
                at += 1
            if offset > 127:
                if key > 127:
                    size = _UNFIT
                offset += (key << 7) - 128
                key = next_byte
                at += 1
            if key > 127:
                high = records[at]
                if high > 127:
                    size = _UNFIT
                key += (high << 7) - 128
                at += 1
            at += key >> 1
            value = records[at]
            if value > 127:
                at += 1
                high = records[at]
                if high > 127:
                    size = _UNFIT
                value += (high << 7) - 128
            at += 1 + (value >> 1)
            has_headers = records[at]
        except (struct_error, IndexError):
            at, size_last, size = position, position, _UNFIT
        if (
            (at - size_last) << 1 != size
            or offset != expected
            or has_headers
            or (key & 1 and key != _NULL)
            or (value & 1 and value != _NULL)
        ):
            position, timestamp, key = _walk_record(records, position, expected >> 1)
        else:
            position = at + 1
        if key == _NULL:
            keyless.append(expected >> 1)
        if timestamp != timestamp_before:
            delta = (timestamp >> 1) ^ -(timestamp & 1)
            if delta > delta_max or expected == 0:
                delta_max, index_of_max = delta, expected >> 1
            if delta < delta_min or expected == 0:
                delta_min = delta
            timestamp_before = timestamp
    if position != len(records):
        raise InvalidRecords("bytes follow the last record of the batch")
    return delta_min, delta_max, index_of_max


def _walk_record(records: memoryview, position: int, index: int) -> tuple[int, int, int]:
    """Check one record; return its end, and its zigzag-encoded timestamp delta and key length."""
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
