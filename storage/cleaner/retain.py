"""The second pass: what stays of each batch.

Source: Cleaner.cleanInto and MemoryRecords.filterTo of Kafka 3.9.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek.protocol.records import NO_PRODUCER_ID, BatchHeader

from .offset_map import OffsetMap
from .progress import Progress
from .rewrite import empty_batch, rebuilt_batch
from .source import Chunk, Records, records_in
from .transactions import TransactionState, marker_of

NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer of the log; `last_data_offset` is -1 if no batch of data is known of it."""

    epoch: int
    last_data_offset: int


class Retention:
    """Decides batch by batch, in the order of the log."""

    __slots__ = (
        "_delete_retention_ms",
        "_end_offset",
        "_newest",
        "_producers",
        "_progress",
        "_record_bytes_max",
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
        self._record_bytes_max = record_bytes_max
        self.transactions = TransactionState()

    def filter(self, chunk: Chunk) -> Iterator[tuple[BatchHeader, memoryview | bytearray]]:
        """Yield what stays: each batch with its old header, copied or made anew.

        Only offsets and sizes of the old header hold for the new batch.  Raises: CorruptLog.
        """
        view = memoryview(chunk.data)
        for position, header in chunk.batches:
            batch = self._retain(chunk, position, header)
            if batch is None:
                yield header, view[position : position + header.size_bytes]
            elif batch:
                yield header, batch

    def _retain(self, chunk: Chunk, position: int, header: BatchHeader) -> bytearray | None:
        """The new batch, empty if nothing is to stay; None if it stays as it is."""
        if not header.is_control and self.transactions.is_aborted(header):
            return self._without_records(header)
        records = records_in(chunk, position, header, self._record_bytes_max)
        self._progress.statistics.records_read += header.record_count
        if not header.is_control:
            return self._retain_data(header, records)
        needless = self.transactions.is_needless(header, marker_of(records.scan))
        if needless and header.has_delete_horizon and header.base_timestamp <= self._wall_ms:
            return self._without_records(header)
        return self._rebuild(header, records, range(header.record_count), dated=needless)

    def _retain_data(self, header: BatchHeader, records: Records) -> bytearray | None:
        scan = records.scan
        dropped = self._dropped(header, records)
        if dropped is None:
            return self._rebuild(
                header, records, range(header.record_count), dated=bool(scan.valueless)
            )
        retained = [index for index, drop in enumerate(dropped) if not drop]
        dated = not all(dropped[index] for index in scan.valueless)
        return self._rebuild(header, records, retained, dated=dated)

    def _dropped(self, header: BatchHeader, records: Records) -> list[bool] | None:
        """For each record whether it goes; None if all stay."""
        scan = records.scan
        latest_offset = self._newest.latest_offset
        if header.base_offset > latest_offset:
            return None
        dropped = self._newest.superseded(scan.keys, scan.offsets)
        expired = (
            scan.valueless and header.has_delete_horizon and header.base_timestamp <= self._wall_ms
        )
        if scan.has_null_keys:
            keyless = [index for index, key in enumerate(scan.keys) if key is None]
            self._progress.statistics.invalid_records += len(keyless)
            for index in keyless:
                dropped[index] = True
        if expired:
            for index in scan.valueless:
                dropped[index] = True
        if header.last_offset > latest_offset:
            for index, offset in enumerate(scan.offsets):
                if offset > latest_offset:
                    dropped[index] = False
        return dropped if True in dropped else None

    def _rebuild(
        self, header: BatchHeader, records: Records, retained: Sequence[int], *, dated: bool
    ) -> bytearray | None:
        """The batch with some records; `dated` if it needs a delete horizon."""
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
        """An empty batch if the log needs it, or nothing."""
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
