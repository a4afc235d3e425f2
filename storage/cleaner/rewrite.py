"""Writes the batches that a cleaning changes: with fewer records, a delete horizon, or empty.

Base offset, last offset, sequence, producer and leader epoch do not change, nor do the records'
offsets and timestamps. The base timestamp becomes that of the first record, or the delete horizon.
Source: MemoryRecords.buildRetainedRecordsInto and DefaultRecordBatch.writeEmptyHeader of Kafka 3.9.
"""

from collections.abc import Sequence
from typing import Final

from odradek.protocol.primitives import INT64_MAX
from odradek.protocol.records import (
    CONTROL,
    HEADER_SIZE_BYTES,
    LENGTH_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    compress,
)
from odradek.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    seal,
)
from odradek.protocol.records.varint import append_varint, append_varlong, read_varlong

from .source import Records

_KEPT_ATTRIBUTES: Final = CONTROL | TRANSACTIONAL | LOG_APPEND_TIME


def empty_batch(header: BatchHeader) -> bytearray:
    """The batch without records."""
    attributes = header.attributes & _KEPT_ATTRIBUTES
    return _seal(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def rebuilt_batch(
    header: BatchHeader, records: Records, retained: Sequence[int], horizon_ms: int | None
) -> bytearray:
    """The batch with only the records whose indices are in `retained`, at least one.

    `horizon_ms`: the delete horizon, or None.
    Raises: MalformedMessage, ValueError, struct.error (a timestamp does not fit into 64 bits).
    """
    attributes = header.attributes & (_KEPT_ATTRIBUTES | CODEC_MASK)
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
    body, base_timestamp, max_timestamp = _copy_records(header, records, retained, horizon_ms)
    data = compress(header.codec, body) if header.codec else body
    return _seal(header, attributes, base_timestamp, max_timestamp, len(retained), data)


def _seal(
    header: BatchHeader,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    data: bytes | bytearray,
) -> bytearray:
    batch = bytearray(HEADER_SIZE_BYTES)
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        HEADER_SIZE_BYTES - LENGTH_OVERHEAD_BYTES + len(data),
        header.partition_leader_epoch,
        header.magic,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        record_count,
    )
    batch += data
    seal(batch)
    return batch


def _copy_records(
    header: BatchHeader, records: Records, retained: Sequence[int], horizon_ms: int | None
) -> tuple[bytearray, int, int]:
    """Return the retained records, their base timestamp and their greatest timestamp.

    Records whose timestamp delta does not change are copied unchanged, adjacent ones at once.
    """
    data, position, ends = records
    append_time = header.max_timestamp if header.is_log_append_time else None
    base_timestamp, max_delta = horizon_ms, -INT64_MAX
    body = bytearray()
    run_start = run_end = position
    for index in retained:
        start = ends[index - 1] if index else position
        delta, size_end, delta_end = _timestamp_delta(data, start)
        if base_timestamp is None:
            base_timestamp = header.base_timestamp + delta if append_time is None else append_time
        new_delta = (
            header.base_timestamp + delta if append_time is None else append_time
        ) - base_timestamp
        if new_delta > max_delta:
            max_delta = new_delta
        if new_delta == delta:
            if start != run_end:
                body += data[run_start:run_end]
                run_start = start
            run_end = ends[index]
            continue
        body += data[run_start:run_end]
        run_start = run_end = ends[index]
        _append_record(body, new_delta, data, size_end, delta_end, ends[index])
    body += data[run_start:run_end]
    assert base_timestamp is not None
    if append_time is not None:
        return body, base_timestamp, append_time
    return body, base_timestamp, max(base_timestamp + max_delta, NO_TIMESTAMP)


def _timestamp_delta(data: bytes, position: int) -> tuple[int, int, int]:
    """The timestamp delta of the record at `position`, where its size field ends, where it ends."""
    while data[position] > 127:
        position += 1
    position += 1
    raw = data[position + 1]
    if raw < 128:
        return (raw >> 1) ^ -(raw & 1), position, position + 2
    high = data[position + 2]
    if high < 128:
        raw = raw & 127 | high << 7
        return (raw >> 1) ^ -(raw & 1), position, position + 3
    delta, delta_end = read_varlong(data, position + 1)
    return delta, position, delta_end


def _append_record(
    body: bytearray, delta: int, data: bytes, size_end: int, delta_end: int, end: int
) -> None:
    head = bytearray(1)  # the attributes
    append_varlong(head, delta)
    append_varint(body, len(head) + end - delta_end)
    body += head
    body += data[delta_end:end]
