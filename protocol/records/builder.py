"""Builds batches for coordinators, tools and tests.  Clients' batches are appended as sent."""

from collections.abc import Sequence
from struct import Struct

from ..primitives import Buffer
from .batch import (
    CONTROL,
    HEADER_SIZE_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    seal,
)
from .compression import Codec, compress
from .record import MARKER_KEY, MARKER_VALUE, MarkerType, Record
from .varint import append_varint, append_varlong

_HEADER = Struct(">qiibIhiqqqhii")


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    append_time_ms: int | None = None,
) -> bytearray:
    """Return one batch of `records`, whose offsets must rise.

    `base_offset` defaults to the first record's offset, or 0; `last_offset` to the last record's
    (compaction keeps both when a batch loses records). With `append_time_ms` all records have that
    timestamp (LogAppendTime).
    Raises: ValueError.
    """
    if base_offset is None:
        base_offset = records[0].offset if records else 0
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = int(Codec(codec))
    attributes |= TRANSACTIONAL if is_transactional else 0
    attributes |= CONTROL if is_control else 0
    if append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = append_time_ms
    body = _encode_records(records, base_offset, last_offset, base_timestamp)
    data = compress(codec, body, level) if codec and records else body
    batch = bytearray(HEADER_SIZE_BYTES)
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_SIZE_BYTES - LENGTH_OVERHEAD_BYTES + len(data),
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch += data
    seal(batch)
    return batch


def control_batch(
    marker: MarkerType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the batch that ends a producer's transaction in a partition."""
    key = MARKER_KEY.pack(0, marker)
    value = MARKER_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def _encode_records(
    records: Sequence[Record], base_offset: int, last_offset: int, base_timestamp: int
) -> bytearray:
    out = bytearray()
    offset_min = base_offset
    for record in records:
        if not offset_min <= record.offset <= last_offset:
            raise ValueError(f"offset {record.offset} is out of order or out of its batch")
        offset_min = record.offset + 1
        body = bytearray(1)  # attributes, all unused
        append_varlong(body, record.timestamp - base_timestamp)
        append_varint(body, record.offset - base_offset)
        _append_bytes(body, record.key)
        _append_bytes(body, record.value)
        append_varint(body, len(record.headers))
        for name, value in record.headers:
            _append_bytes(body, name.encode())
            _append_bytes(body, value)
        append_varint(out, len(body))
        out += body
    return out


def _append_bytes(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)  # the zigzag of -1
    else:
        append_varint(out, len(data))
        out += data
