"""One cleaning of a log: reads its segments, and writes new ones beside them."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import LogDirFailed
from ..files import FileSystem
from .build import MapBuilder
from .groups import group_segments
from .offset_map import OffsetMap
from .output import CleanedSegment, cleaned_paths
from .progress import CleanStatistics, Progress
from .retain import ActiveProducer, Retention
from .source import CleanSegment, read_chunks
from .transactions import AbortedTransactions


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    """What to clean, and with which settings; end offsets are exclusive."""

    directory: str
    segments: Sequence[CleanSegment]  # from the log's first to the end of the cleanable part
    first_dirty_offset: int
    end_offset: int
    wall_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    record_bytes_max: int  # of a batch when decompressed
    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    producers: Mapping[int, ActiveProducer]


@dataclass(frozen=True, slots=True)
class NewSegment:
    """A segment that was written, and the base offsets of those that it replaces."""

    replaces: list[int]
    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleanResult:
    """`end_offset` is the next first dirty offset, lower than requested if the map was full."""

    end_offset: int
    segments: list[NewSegment]
    statistics: CleanStatistics


def clean(request: CleanRequest, files: FileSystem, report: Callable[[int], None]) -> CleanResult:
    """Write the new segments, synced.  After a failure, what was written is removed.

    Raises: CorruptLog, UnsupportedFormat, BatchTooLarge, DiskFull, LogDirFailed.
    """
    if not request.segments or request.first_dirty_offset >= request.end_offset:
        return CleanResult(request.first_dirty_offset, [], CleanStatistics())
    with contextlib.ExitStack() as undo:
        cleaning = _Cleaning(request, files, report, undo)
        undo.callback(cleaning.aborted.close)
        end_offset = cleaning.build_map()
        segments = cleaning.write_segments(end_offset)
        cleaning.aborted.close()
        undo.pop_all()
    return CleanResult(end_offset, segments, cleaning.progress.statistics)


class _Cleaning:
    """The state that the two passes share."""

    def __init__(
        self,
        request: CleanRequest,
        files: FileSystem,
        report: Callable[[int], None],
        undo: contextlib.ExitStack,
    ) -> None:
        self.request = request
        self.files = files
        self.undo = undo
        self.progress = Progress(report)
        self.newest = OffsetMap(request.map_bytes, request.load_factor, request.first_dirty_offset)
        self.aborted = AbortedTransactions(files, request.directory)
        self.sizes = {
            info.name: info.size_bytes for info in files.list_directory(request.directory)
        }

    def build_map(self) -> int:
        """Run the first pass; return the first offset that it did not reach."""
        request = self.request
        dirty = [
            segment
            for segment in request.segments
            if segment.next_offset > request.first_dirty_offset
            and segment.base_offset < request.end_offset
        ]
        builder = MapBuilder(self.newest, request.record_bytes_max, self.progress)
        builder.build(
            self.files,
            request.directory,
            dirty,
            request.end_offset,
            self.aborted,
            self.sizes,
            request.io_buffer_bytes,
        )
        statistics = self.progress.statistics
        statistics.map_entries = len(self.newest)
        statistics.map_utilization = len(self.newest) / self.newest.entries_max
        return self.newest.latest_offset + 1

    def write_segments(self, end_offset: int) -> list[NewSegment]:
        """Run the second pass."""
        request = self.request
        retention = Retention(
            self.newest,
            request.producers,
            self.progress,
            end_offset=request.end_offset,
            wall_ms=request.wall_ms,
            delete_retention_ms=request.delete_retention_ms,
            record_bytes_max=request.record_bytes_max,
        )
        groups = group_segments(
            [segment for segment in request.segments if segment.base_offset < end_offset],
            self.sizes,
            segment_bytes=request.segment_bytes,
            segment_index_bytes=request.segment_index_bytes,
            end_offset=request.end_offset,
        )
        return [self._write_group(group, retention) for group in groups]

    def _write_group(self, group: list[CleanSegment], retention: Retention) -> NewSegment:
        request = self.request
        base_offset = group[0].base_offset
        self.undo.callback(self._remove, base_offset)
        new = CleanedSegment(
            self.files, request.directory, base_offset, request.index_interval_bytes
        )
        self.undo.callback(new.close)
        for segment in group:
            retention.transactions.add_aborted(
                self.aborted.between(segment.base_offset, segment.next_offset)
            )
            for chunk in read_chunks(
                self.files, request.directory, segment, 0, request.io_buffer_bytes
            ):
                self.progress.read(len(chunk.data))
                self.progress.wrote(new.append(retention.filter(chunk)))
                new.note_aborted(retention.transactions.take_kept_aborts())
        new.finish()
        return NewSegment(
            [segment.base_offset for segment in group], base_offset, new.file.size_bytes
        )

    def _remove(self, base_offset: int) -> None:
        for path in cleaned_paths(self.request.directory, base_offset):
            with contextlib.suppress(LogDirFailed):  # the first failure is the one to report
                self.files.unlink(path)
