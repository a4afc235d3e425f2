"""Writes a new segment of a cleaning: up to four files that end in `.cleaned`."""

from collections.abc import Iterable
from typing import Final

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import NO_TIMESTAMP, BatchHeader, read_header

from ..errors import BatchTooLarge
from ..files import FileSystem
from ..log.index import OffsetIndex, TimeIndex
from ..log.log_file import LogFile
from ..log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ..log.txn_index import AbortedTransaction, TransactionIndex

CLEANED_SUFFIX: Final = ".cleaned"


class CleanedSegment:
    """A new segment under construction, with index entries as Kafka's cleaner writes them."""

    __slots__ = (
        "_index_interval_bytes",
        "_index_position",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_time_index",
        "_txn_index",
        "base_offset",
        "file",
    )

    def __init__(
        self, files: FileSystem, directory: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        """Create the files, replacing those of an earlier attempt.  Raises: LogDirFailed."""
        paths = cleaned_paths(directory, base_offset)
        for path in paths[:3]:
            files.create(path)
        files.unlink(paths[3])
        self.base_offset = base_offset
        self.file: LogFile = files.open_log(paths[0], 0)
        self._offset_index = OffsetIndex(files, paths[1], base_offset, 0)
        self._time_index = TimeIndex(files, paths[2], base_offset, 0)
        self._txn_index = TransactionIndex(files, paths[3], None)
        self._index_interval_bytes = index_interval_bytes
        self._index_position = 0
        self._max_timestamp = self._max_timestamp_offset = NO_TIMESTAMP

    def append(self, batches: Iterable[tuple[BatchHeader, memoryview | bytearray]]) -> int:
        """Append batches, each with a header that has its offsets; return their size in bytes.

        Raises: BatchTooLarge, DiskFull, LogDirFailed.
        """
        parts: list[memoryview | bytearray] = []
        position = start = self.file.size_bytes
        for header, batch in batches:
            self._note(header, batch, position)
            parts.append(batch)
            position += len(batch)
        if position > INT32_MAX:
            raise BatchTooLarge(f"{self.file.path}: a cleaned segment grows past 2 GiB")
        if parts:
            self.file.append(b"".join(parts))
        return position - start

    def _note(self, header: BatchHeader, batch: memoryview | bytearray, position: int) -> None:
        if isinstance(batch, bytearray):
            header = read_header(batch)
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        if position - self._index_position > self._index_interval_bytes:
            self._offset_index.append(header.last_offset, position)
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
            self._index_position = position

    def note_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Index the aborted transactions whose markers were kept.  Raises: LogDirFailed."""
        for transaction in transactions:
            self._txn_index.append(transaction)

    def finish(self) -> None:
        """Write the indexes, fsync all files and close them.  Raises: LogDirFailed."""
        self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
        self._offset_index.write_pending()
        self._time_index.write_pending()
        for file in self._files():
            file.sync()
        self.close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files():
            file.close()

    def _files(self) -> list[LogFile]:
        files = [self.file, self._offset_index.file, self._time_index.file]
        return files if self._txn_index.is_empty else [*files, self._txn_index.file]


def cleaned_paths(directory: str, base_offset: int) -> list[str]:
    """The paths of a new segment: log, offset index, time index, transaction index."""
    stem = f"{directory}/{base_offset:020d}"
    suffixes = LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
    return [stem + suffix + CLEANED_SUFFIX for suffix in suffixes]
