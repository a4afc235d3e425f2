"""The first pass: finds the newest offset of each key in the dirty part.

Source: Cleaner.buildOffsetMap of Kafka 3.9.
"""

from collections.abc import Mapping, Sequence

from odradek.protocol.records import BatchHeader

from ..files import FileSystem
from ..log.index import OffsetIndex
from ..log.segment import INDEX_SUFFIX
from .offset_map import OffsetMap
from .progress import Progress
from .source import BatchReader, Chunk, CleanSegment, read_chunks
from .transactions import AbortedTransactions, TransactionState, marker_of


class MapBuilder:
    """Fills an offset map until the dirty part ends or the map is full."""

    __slots__ = ("_newest", "_progress", "_reader", "_start_offset", "_transactions")

    def __init__(self, newest: OffsetMap, record_bytes_max: int, progress: Progress) -> None:
        self._newest = newest
        self._start_offset = newest.start_offset
        self._reader = BatchReader(record_bytes_max)
        self._progress = progress
        self._transactions = TransactionState()

    def build(
        self,
        files: FileSystem,
        directory: str,
        dirty: Sequence[CleanSegment],
        end_offset: int,
        aborted: AbortedTransactions,
        sizes: Mapping[str, int],
        chunk_bytes: int,
    ) -> None:
        """Read the segments with [start offset, end offset).

        Raises: CorruptLog, UnsupportedFormat, LogDirFailed.
        """
        self._transactions.add_aborted(aborted.between(self._start_offset, end_offset))
        for index, segment in enumerate(dirty):
            position = _position_of(files, directory, segment, self._start_offset, sizes)
            for chunk in read_chunks(files, directory, segment, position, chunk_bytes):
                self._progress.mapped(len(chunk.data))
                if not all(self._put(chunk, *batch) for batch in chunk.batches):
                    return
            following = dirty[index + 1].base_offset if index + 1 < len(dirty) else end_offset
            self._newest.latest_offset = max(self._newest.latest_offset, following - 1)

    def _put(self, chunk: Chunk, position: int, header: BatchHeader) -> bool:
        """Add a batch; False if the map is full."""
        statistics = self._progress.statistics
        if header.is_control:
            _, scan = self._reader.scan(chunk, position, header)
            self._transactions.is_needless(header, marker_of(scan))
            statistics.map_records_read += 1
        elif self._transactions.is_aborted(header):
            statistics.map_records_read += header.record_count
        elif header.last_offset >= self._start_offset:
            keys, offsets = self._reader.keys(chunk, position, header)
            statistics.map_records_read += header.record_count
            statistics.invalid_records += keys.count(None)
            if not self._newest.put(keys, offsets):
                return False
        if header.last_offset >= self._start_offset:
            self._newest.latest_offset = header.last_offset
        return True


def _position_of(
    files: FileSystem,
    directory: str,
    segment: CleanSegment,
    offset: int,
    sizes: Mapping[str, int],
) -> int:
    """The position of a batch in the segment, at or before the one with `offset`."""
    name = f"{segment.base_offset:020d}{INDEX_SUFFIX}"
    if offset <= segment.base_offset or name not in sizes:
        return 0
    index = OffsetIndex(files, f"{directory}/{name}", segment.base_offset, sizes[name])
    entry = index.floor_offset(offset)
    index.file.close()
    return 0 if entry is None else entry.position
