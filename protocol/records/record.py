"""Reads the records of a batch one by one; keys and values are views of the batch's bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from ..errors import BadLength, Truncated, UnsupportedVersion
from ..primitives import Buffer
from .batch import CODEC_MASK, HEADER_SIZE_BYTES, LENGTH_OVERHEAD_BYTES, BatchHeader, read_header
from .compression import decompress
from .varint import read_varint, read_varlong

Header = tuple[str, bytes | None]


@dataclass(slots=True)
class Record:
    """One record.  If it was read, `key` and `value` are views, valid as long as their buffer."""

    offset: int
    timestamp: int
    key: Buffer | None
    value: Buffer | None
    headers: list[Header] = field(default_factory=list)


def iter_records(
    batch: Buffer, header: BatchHeader | None = None, *, size_bytes_max: int
) -> Iterator[Record]:
    """Yield the records of the batch at the beginning of `batch`.

    With LogAppendTime every record has the batch's `max_timestamp`. `size_bytes_max` limits the
    decompressed size of the records.
    Raises: MalformedMessage, while iterating.
    """
    if header is None:
        header = read_header(batch)
    records = records_of(batch, header, size_bytes_max)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    position = 0
    for _ in range(header.record_count):
        record_end, position = record_extent(records, position)
        timestamp_delta, position = read_varlong(records, position + 1)  # 1: attributes, unused
        offset_delta, position = read_varint(records, position)
        key, position = _read_bytes(records, position, record_end)
        value, position = _read_bytes(records, position, record_end)
        if position == record_end - 1 and records[position] == 0:
            headers: list[Header] = []
        else:
            headers, position = _read_headers(records, position, record_end)
            if position != record_end:
                raise BadLength("a record is longer than its fields")
        yield Record(
            base_offset + offset_delta,
            base_timestamp + timestamp_delta if append_time is None else append_time,
            key,
            value,
            headers,
        )
        position = record_end
    if position != len(records):
        raise BadLength("bytes follow the last record of a batch")


def records_of(batch: Buffer, header: BatchHeader, size_bytes_max: int) -> memoryview:
    """Return the bytes of the records, decompressed.  Raises: MalformedMessage."""
    size_bytes = header.batch_length + LENGTH_OVERHEAD_BYTES
    if len(batch) < size_bytes:
        raise Truncated(f"{size_bytes} bytes are announced, {len(batch)} are there")
    records = memoryview(batch)[HEADER_SIZE_BYTES:size_bytes]
    codec = header.attributes & CODEC_MASK
    if codec == 0 or size_bytes == HEADER_SIZE_BYTES:
        return records  # empty batches, which compaction leaves, may have a codec
    return decompress(codec, records, size_bytes_max)


def record_extent(records: memoryview, position: int) -> tuple[int, int]:
    """Return where the record at `position` ends and where its attributes are.

    Raises: Truncated, BadLength.
    """
    size_bytes, position = read_varint(records, position)
    if size_bytes < 0:
        raise BadLength(f"a record claims {size_bytes} bytes")
    if size_bytes > len(records) - position:
        raise Truncated("the bytes end inside a record")
    return position + size_bytes, position


def _read_bytes(
    records: memoryview, position: int, record_end: int
) -> tuple[memoryview | None, int]:
    size_bytes, position = read_varint(records, position)
    if size_bytes < 0:
        return None, position
    bytes_end = position + size_bytes
    if bytes_end > record_end:
        raise BadLength("a key or value leads out of its record")
    return records[position:bytes_end], bytes_end


def _read_headers(records: memoryview, position: int, record_end: int) -> tuple[list[Header], int]:
    count, position = read_varint(records, position)
    if count < 0:
        raise BadLength(f"a record claims {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _read_bytes(records, position, record_end)
        if key is None:
            raise BadLength("a record header has no key")
        value, position = _read_bytes(records, position, record_end)
        # As in Java, a key that is not UTF-8 can be read; validate_records rejects it.
        name = str(key, "utf-8", "replace")
        headers.append((name, None if value is None else bytes(value)))
    return headers, position


class MarkerType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The contents of a transaction marker.  Source: ControlRecordType, EndTxnMarker.json."""

    type: MarkerType
    coordinator_epoch: int


MARKER_KEY: Final = Struct(">hh")  # version, type
MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch


def read_marker(record: Record) -> Marker:
    """Read the transaction marker in the record of a control batch.

    Raises: Truncated, UnsupportedVersion (a control record of another type).
    """
    try:
        _, marker_type = MARKER_KEY.unpack_from(record.key or b"")
        if marker_type not in (MarkerType.ABORT, MarkerType.COMMIT):
            raise UnsupportedVersion(f"control record of type {marker_type}")
        _, coordinator_epoch = MARKER_VALUE.unpack_from(record.value or b"")
    except struct_error:
        raise Truncated("the bytes end inside a transaction marker") from None
    return Marker(MarkerType(marker_type), coordinator_epoch)
