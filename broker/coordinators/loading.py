"""Reading a partition of an internal topic back into the state from which it was written.

The whole log is read, compacted or not: records are applied in order, so the last one of each key
counts. What cannot be read is logged with its position and skipped; the broker starts.

Loading takes many turns of the event loop. Between two reads the log may be moved to another
directory, or leadership may be lost and the log deleted: reading a deleted log fails, although its
disk is healthy.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import (
    BatchHeader,
    InvalidRecords,
    MarkerType,
    Record,
    check_crc,
    iter_batches,
    iter_records,
    read_marker,
)
from odradek.storage.errors import CorruptLog
from odradek.storage.log.log import Log

from ..core.partition import Partition
from ..runtime import Offload
from .codec import RecordCodec, RecordT

logger = logging.getLogger(__name__)

TURN_RECORDS_MAX: Final = 500  # applied before other tasks get their turn


class Transactions(Protocol):
    """Takes what a log has of transactions, in log order."""

    def apply_in_transaction(self, record: Any, producer_id: int) -> None:
        """Apply a record of a transaction that is open: its end decides whether it counts."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """The producer's transaction ends here, if one is open."""


class CoordinatorLoader(Generic[RecordT]):
    """Reads one log from its start to its end."""

    def __init__(
        self,
        partition: Partition,
        codec: RecordCodec[RecordT],
        apply: Callable[[RecordT], None],
        *,
        transactions: Transactions | None,
        is_over: Callable[[], bool],
        buffer_bytes: int,
        decompressed_bytes_max: int,
    ) -> None:
        """`is_over`: whether nobody needs the records any more.

        `transactions`: None if records of this topic never belong to a transaction.
        """
        self._partition = partition
        self._codec = codec
        self._apply = apply
        self._transactions = transactions
        self._is_over = is_over
        self._buffer_bytes = buffer_bytes
        self._decompressed_bytes_max = decompressed_bytes_max
        self.record_count = 0
        self.skipped_count = 0

    async def load(self, offload: Offload) -> None:
        """Apply everything up to the log end, unless it `is_over` first.  Raises: LogDirFailed."""
        offset = 0
        while not self._is_over():
            offset = max(offset, self._log.log_start_offset)  # retention may have moved it
            if offset >= self._log.log_end_offset:
                return
            try:
                data = await self._read(offset, offload)
                if data is None:
                    return
                offset = await self._apply_batches(data, offset)
            except CorruptLog as error:
                offset = self._skip_damage(offset, error)

    async def _read(self, offset: int, offload: Offload) -> bytes | None:
        """Raises: CorruptLog, LogDirFailed."""
        log = self._log
        try:
            span = log.read(
                offset, size_bytes_max=self._buffer_bytes, offset_end=log.log_end_offset
            )
        except CorruptLog:  # the batches before the damage can be read one by one
            span = log.read(offset, size_bytes_max=0, offset_end=log.log_end_offset)
        if span is None:
            return None
        try:
            return await offload(span.read)
        finally:
            span.release()

    async def _apply_batches(self, data: bytes, offset: int) -> int:
        """Return the offset after the last complete batch; one that is cut off is read again.

        Raises: CorruptLog, if no batch begins at `offset`.
        """
        offset_first, turn = offset, 0
        view = memoryview(data)
        try:
            for position, header in iter_batches(view):
                batch = view[position : position + header.size_bytes]
                for record in self._records(batch, header):
                    if record.offset >= offset:
                        self._take(record, header)
                    turn += 1
                    if turn % TURN_RECORDS_MAX == 0:
                        await asyncio.sleep(0)
                offset = header.next_offset
        except MalformedMessage as error:
            if offset == offset_first:
                raise CorruptLog(str(error)) from error
        if offset == offset_first:
            raise CorruptLog("the batch is cut off")
        return offset

    def _records(self, batch: memoryview, header: BatchHeader) -> Iterator[Record]:
        try:
            check_crc(batch, header)
            yield from iter_records(batch, header, size_bytes_max=self._decompressed_bytes_max)
        except (MalformedMessage, InvalidRecords) as error:
            self._skip(header.base_offset, error)

    def _take(self, record: Record, header: BatchHeader) -> None:
        try:
            if header.is_control:
                self._end_transaction(record, header.producer_id)
                return
            if record.key is None:
                raise MalformedMessage("a record without a key")
            value = None if record.value is None else bytes(record.value)
            decoded = self._codec.decode(bytes(record.key), value)
        except MalformedMessage as error:
            self._skip(record.offset, error)
            return
        self.record_count += 1
        if decoded is None:
            return  # written by a newer broker
        if header.is_transactional and self._transactions is not None:
            self._transactions.apply_in_transaction(decoded, header.producer_id)
        else:
            self._apply(decoded)

    def _end_transaction(self, record: Record, producer_id: int) -> None:
        """Raises: MalformedMessage."""
        marker = read_marker(record)
        if self._transactions is not None:
            self._transactions.end_transaction(
                producer_id, is_committed=marker.type == MarkerType.COMMIT
            )

    def _skip(self, offset: int, error: Exception) -> None:
        self.skipped_count += 1
        logger.error(
            "record skipped topic=%s partition=%d offset=%d error=%s",
            *self._name,
            offset,
            error,
        )

    def _skip_damage(self, offset: int, error: Exception) -> int:
        """The offset at which to go on."""
        offset_next = self._log.offset_past_damage(offset)
        self.skipped_count += 1
        logger.error(
            "records skipped topic=%s partition=%d offsets=%d..%d error=%s",
            *self._name,
            offset,
            offset_next - 1,
            error,
        )
        return offset_next

    @property
    def _log(self) -> Log:
        """The log that the partition uses now."""
        return self._partition.log

    @property
    def _name(self) -> tuple[str, int]:
        return self._log.topic, self._log.partition
