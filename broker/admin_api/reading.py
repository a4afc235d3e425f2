"""Reading the records of a partition, as a consumer would, but without a connection."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.records import iter_batches
from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.record import Record, iter_records
from odradek.storage.log.log import Log

READ_BYTES_MAX: Final = 1 << 20


class Read(NamedTuple):
    """Records, their size, and the offset where reading may go on."""

    records: list[Record]
    size_bytes: int
    next_offset: int


class Limit(NamedTuple):
    """How much is read: one record at least, then no more than this."""

    records: int
    size_bytes: int
    batch_bytes: int
    """Of a batch after decompression."""


def read_records(log: Log, offset: int, limit: Limit, *, is_committed: bool) -> Read:
    """Records from an offset on, up to the high watermark or, for committed ones, the last stable
    offset.  Markers of transactions are left out.

    Raises: OffsetOutOfRange, CorruptLog, LogDirFailed, MalformedMessage.
    """
    end = log.last_stable_offset if is_committed else log.high_watermark
    records: list[Record] = []
    size_bytes = 0
    span = log.read(offset, size_bytes_max=READ_BYTES_MAX, offset_end=end)
    if span is None:
        return Read(records, size_bytes, offset)
    try:
        data = span.read()
    finally:
        span.release()
    is_aborted = _Aborted(log, offset, end) if is_committed else None
    for position, header in iter_batches(data):
        last = header.base_offset + header.last_offset_delta
        if last < offset:
            continue
        if header.base_offset >= end:
            break
        if not header.is_control and (is_aborted is None or not is_aborted(header)):
            batch = memoryview(data)[position:]
            for record in _from(batch, header, offset, limit.batch_bytes):
                size_bytes += _size_bytes(record)
                if records and (len(records) >= limit.records or size_bytes > limit.size_bytes):
                    return Read(records, size_bytes, record.offset)
                records.append(record)
        offset = last + 1
    return Read(records, size_bytes, offset)


def _size_bytes(record: Record) -> int:
    parts = [record.key, record.value, *(value for _, value in record.headers)]
    return sum(len(part) for part in parts if part is not None)


def _from(batch: memoryview, header: BatchHeader, offset: int, bytes_max: int) -> Iterator[Record]:
    for record in iter_records(batch, header, size_bytes_max=bytes_max):
        if record.offset >= offset:
            yield record


class _Aborted:
    """Tells the batches of aborted transactions."""

    def __init__(self, log: Log, offset: int, end: int) -> None:
        self._transactions = log.aborted_transactions(offset, end)

    def __call__(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            found.producer_id == header.producer_id
            and found.first_offset <= header.base_offset <= found.last_offset
            for found in self._transactions
        )
