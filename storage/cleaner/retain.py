"""The second pass: decides what to keep of each batch.

Source: Cleaner.cleanInto and MemoryRecords.filterTo of Kafka 3.9.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import error as struct_error
from typing import Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import NO_PRODUCER_ID, BatchHeader

from ..errors import CorruptLog
from .offset_map import OffsetMap
from .progress import Progress
from .rewrite import empty_batch, rebuilt_batch
from .scan import RecordScan, is_valueless
from .source import BatchReader, Chunk, Records, is_gapless, place
from .transactions import TransactionState, marker_of

NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer of the log; `last_data_offset` is -1 if no data batch of it is known."""

    epoch: int
    last_data_offset: int


class Retention:
    """Filters the log's batches, in order."""

    __slots__ = (
        "_delete_retention_ms",
        "_end_offset",
        "_newest",
        "_producers",
        "_progress",
        "_reader",
        "_wall_ms",
        "transactions",
    )

    def __init__(
        self,
        newest: OffsetMap,
        producers: Mapping[int, ActiveProducer],
        progress: Progress,
        *,
        end_offset: int,
        wall_ms: int,
        delete_retention_ms: int,
        record_bytes_max: int,
    ) -> None:
        self._newest = newest
        self._producers = producers
        self._progress = progress
        self._end_offset = end_offset
        self._wall_ms = wall_ms
        self._delete_retention_ms = delete_retention_ms
        self._reader = BatchReader(record_bytes_max)
        self.transactions = TransactionState()

    def filter(self, chunk: Chunk) -> Iterator[tuple[BatchHeader, memoryview | bytearray]]:
        """Yield the batches to keep, unchanged or rebuilt, each with its old header.

        Use only the offsets of an old header: size, record count, attributes and timestamps of a
        rebuilt batch may differ.  Raises: CorruptLog.
        """
        view = memoryview(chunk.data)
        for position, header in chunk.batches:
            try:
                batch = self._retain(chunk, position, header)
            except (MalformedMessage, ValueError, struct_error) as error:  # a bad timestamp
                raise CorruptLog(f"{place(chunk, position)}: {error}") from error
            if batch is None:
                yield header, view[position : position + header.size_bytes]
            elif batch:
                yield header, batch

    def _retain(self, chunk: Chunk, position: int, header: BatchHeader) -> bytearray | None:
        """The new batch, b"" if nothing stays; None if the batch stays unchanged."""
        if header.is_control:
            return self._retain_marker(chunk, position, header)
        if self.transactions.is_aborted(header):
            return self._without_records(header)
        self._progress.statistics.records_read += header.record_count
        if is_gapless(header) and self._newest.covers(header.base_offset, header.last_offset):
            return self._retain_newest(chunk, position, header)
        records, scan = self._reader.scan(chunk, position, header)
        dropped = self._dropped(header, scan)
        retained = [index for index, drop in enumerate(dropped) if not drop]
        dated = not all(dropped[index] for index in scan.valueless)
        return self._rebuild(header, records, retained, dated=dated)

    def _retain_marker(self, chunk: Chunk, position: int, header: BatchHeader) -> bytearray | None:
        records, scan = self._reader.scan(chunk, position, header)
        self._progress.statistics.records_read += header.record_count
        needless = self.transactions.is_needless(header, marker_of(scan))
        if needless and self._is_expired(header):
            return self._without_records(header)
        return self._rebuild(header, records, range(header.record_count), dated=needless)

    def _retain_newest(self, chunk: Chunk, position: int, header: BatchHeader) -> bytearray | None:
        """Retain a batch whose keys the first pass has read: the map has the offsets that stay.

        The keys are not read again, and a batch of which nothing stays is not read at all.
        """
        base_offset = header.base_offset
        newest = self._newest.newest_between(base_offset, header.last_offset)
        if not newest:
            return self._without_records(header)
        records = self._reader.records(chunk, position, header)
        data, ends = records.data, records.ends
        retained = [offset - base_offset for offset in newest]
        valueless = [
            index
            for index in retained
            if is_valueless(data, ends[index - 1] if index else records.position)
        ]
        if valueless and self._is_expired(header):
            retained = sorted(set(retained).difference(valueless))
            valueless = []
        return self._rebuild(header, records, retained, dated=bool(valueless))

    def _is_expired(self, header: BatchHeader) -> bool:
        """Whether the batch's delete horizon has passed."""
        return header.has_delete_horizon and header.base_timestamp <= self._wall_ms

    def _dropped(self, header: BatchHeader, scan: RecordScan) -> list[bool]:
        """For each record of a batch, whether it is dropped."""
        latest_offset = self._newest.latest_offset
        dropped = self._newest.superseded(scan.keys, scan.offsets)
        if scan.has_null_keys:
            for index, key in enumerate(scan.keys):
                dropped[index] |= key is None
        if self._is_expired(header):
            for index in scan.valueless:
                dropped[index] = True
        if header.last_offset > latest_offset:
            for index, offset in enumerate(scan.offsets):
                dropped[index] &= offset <= latest_offset
        return dropped

    def _rebuild(
        self, header: BatchHeader, records: Records, retained: Sequence[int], *, dated: bool
    ) -> bytearray | None:
        """The batch with only the retained records; `dated`: it needs a delete horizon."""
        if not retained:
            return self._without_records(header)
        self._progress.statistics.records_written += len(retained)
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        if horizon_ms is None and dated:
            horizon_ms = self._wall_ms + self._delete_retention_ms
        elif len(retained) == header.record_count:
            return None
        return rebuilt_batch(header, records, retained, horizon_ms)

    def _without_records(self, header: BatchHeader) -> bytearray:
        """An empty batch if it is the last one of the cleaned part or of a producer; else b""."""
        if header.next_offset == self._end_offset or self._is_last_of_producer(header):
            return empty_batch(header)
        return bytearray()

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id == NO_PRODUCER_ID:
            return False
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset != NO_OFFSET:
            return header.last_offset == producer.last_data_offset
        return header.is_control and header.producer_epoch == producer.epoch
