"""Reading the records of a partition, as a consumer would, but without a connection."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.records import iter_batches
from odradek.protocol.records.batch import BatchHeader
from odradek.protocol.records.record import Record, iter_records
from odradek.storage.log.log import Log

READ_BYTES_MAX: Final = 1 << 20


class Read(NamedTuple):
    """Records, and the offset where reading may go on."""

    records: list[Record]
    next_offset: int


def read_records(log: Log, offset: int, *, limit: int, is_committed: bool, bytes_max: int) -> Read:
    """Records from an offset on, up to the high watermark or, for committed ones, the last stable
    offset; at most `limit`.  Markers of transactions are left out.

    `bytes_max`: of a batch after decompression.
    Raises: OffsetOutOfRange, CorruptLog, LogDirFailed, MalformedMessage.
    """
    end = log.last_stable_offset if is_committed else log.high_watermark
    records: list[Record] = []
    span = log.read(offset, size_bytes_max=READ_BYTES_MAX, offset_end=end)
    if span is None:
        return Read(records, offset)
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
        if header.is_control or (is_aborted is not None and is_aborted(header)):
            offset = last + 1
            continue
        batch = memoryview(data)[position:]
        for record in _from(batch, header, offset, bytes_max):
            if len(records) == limit:
                return Read(records, record.offset)
            records.append(record)
            offset = record.offset + 1
        offset = last + 1
    return Read(records, offset)


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
