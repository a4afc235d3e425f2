"""Plans the ranges of offsets of a read; pure, except that it looks at the files.

A range is a segment, or a part of one between two entries of its index, so that reading begins in
the right place. It is given in offsets instead of bytes, because segments may be compacted or
deleted between planning and reading.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from odradek.storage.errors import StorageError
from odradek.storage.files import FileSystem
from odradek.storage.inspect.check_directory import partition_of
from odradek.storage.log.checkpoint import HIGH_WATERMARK, LOG_START, read_offsets

from ..errors import PipelineError
from ..offsets import TopicPartition
from .bounds import Known, resolve
from .log_view import LogView, SegmentView
from .options import ReadOptions
from .pushdown import EVERYTHING, Narrowing
from .transactions import first_open_offset

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadRange:
    """What one Spark partition reads: [start, end) of one topic partition."""

    directory: str
    topic: str
    partition: int
    offset_start: int
    offset_end: int | None
    """None: up to the end of the log at the time of reading."""
    high_watermark: int = 0
    """Without an end: invalid bytes below it are damage, those after it may be a torn write."""


@dataclass(frozen=True)
class _Extent:
    """The part of a segment that is read."""

    key: TopicPartition
    segment: SegmentView
    offset_start: int
    offset_end: int | None
    position: int
    position_end: int

    @property
    def size_bytes(self) -> int:
        return max(0, self.position_end - self.position)


@dataclass(frozen=True)
class _Found:
    """A partition's directory, and what the data directory's checkpoints say about it."""

    directory: str
    high_watermark: int | None
    log_start: int


def plan(
    files: FileSystem, options: ReadOptions, narrowing: Narrowing = EVERYTHING
) -> list[ReadRange]:
    """The ranges to read, in order of topic, partition and offset.

    `narrowing`: what else need not be read.  Raises: PipelineError.
    """
    try:
        found = _find(files, options)
        views = {key: LogView(files, each.directory) for key, each in found.items()}
        try:
            known = {key: _know(views[key], each, options) for key, each in found.items()}
            bounds = resolve(views, known, options)
            extents = [
                extent
                for key, bound in bounds.items()
                if narrowing.keeps(*key)
                for extent in _extents(
                    views[key], key, *narrowing.clip(*bound), narrowing.timestamp_ms_min
                )
            ]
            wanted = sum(extent.size_bytes for extent in extents) // options.min_partitions
            bytes_max = max(1, min(options.partition_bytes_max, wanted))
            return [
                _range(found[extent.key], extent.key, start, end)
                for extent in extents
                for start, end in _split(extent, bytes_max)
            ]
        finally:
            for view in views.values():
                view.close()
    except StorageError as error:
        raise PipelineError(f"the segments can't be read: {error}") from error


def _range(found: _Found, key: TopicPartition, start: int, end: int | None) -> ReadRange:
    high_watermark = found.high_watermark if end is None else None
    return ReadRange(found.directory, *key, start, end, high_watermark or 0)


def _find(files: FileSystem, options: ReadOptions) -> dict[TopicPartition, _Found]:
    """The requested partitions.  Raises: PipelineError, LogDirFailed."""
    found: dict[TopicPartition, _Found] = {}
    there: set[TopicPartition] = set()
    for directory in options.directories:
        if not files.exists(directory):
            raise PipelineError(f"there is no directory {directory}: name a broker's log.dirs")
        marks = read_offsets(files, f"{directory}/{HIGH_WATERMARK}")
        starts = read_offsets(files, f"{directory}/{LOG_START}") or {}
        for info in sorted(files.list_directory(directory)):
            named = partition_of(info.name) if info.is_directory else None
            if named is None:
                continue
            key = TopicPartition(*named)
            there.add(key)
            if not options.names(*key):
                continue
            path = f"{directory}/{info.name}"
            if key in found:
                raise PipelineError(
                    f"{key} lies in {found[key].directory} and in {path}: "
                    "read one broker's directories at a time"
                )
            found[key] = _Found(path, (marks or {}).get(key), starts.get(key, 0))
        if marks is None and not options.to_log_end and there:
            raise PipelineError(
                f"{directory} has no readable {HIGH_WATERMARK}, so that nobody knows which records "
                "are committed: the option toLogEnd reads all valid batches"
            )
    _refuse_missing(there, found, options)
    return dict(sorted(found.items()))


def _refuse_missing(
    there: set[TopicPartition], found: dict[TopicPartition, _Found], options: ReadOptions
) -> None:
    """Raises: PipelineError if a named topic or partition does not exist."""
    where = " and ".join(options.directories)
    topics = {topic for topic, _ in there}
    for topic in options.topics or ():
        if topic not in topics:
            names = ", ".join(sorted(topics)) or "no topic"
            raise PipelineError(f"{where} has no topic {topic}: it has {names}")
    for key in sorted(options.assigned or ()):
        if key not in there:
            raise PipelineError(f"{where} has no partition {key}")
    if not there:
        raise PipelineError(f"{where} has no partitions: name a broker's log.dirs")
    if not found:
        raise PipelineError(f"{where} has no partition that topics and partitions name")
    numbers = {partition for _, partition in found}
    nowhere = sorted((options.partitions or frozenset()) - numbers)
    if nowhere:
        named = ", ".join(map(str, nowhere))
        raise PipelineError(f"{where} has no partition {named} of any topic that is read")


def _know(view: LogView, found: _Found, options: ReadOptions) -> Known:
    """The readable offsets of a partition."""
    first = view.first_offset
    start = max(found.log_start, first or 0)
    if first is None:
        return Known(start, start)
    if options.to_log_end:
        end = None
    elif found.high_watermark is None:
        logger.warning(
            "no high watermark in the checkpoint, nothing is read path=%s", found.directory
        )
        end = start
    else:
        end = max(start, found.high_watermark)
    if options.committed_only and (end is None or end > start):
        opened = first_open_offset(view, end)
        if opened is not None:
            end = max(start, opened if end is None else min(opened, end))
    return Known(start, end)


def _extents(
    view: LogView,
    key: TopicPartition,
    offset_start: int,
    offset_end: int | None,
    timestamp_ms_min: int | None,
) -> Iterator[_Extent]:
    if offset_end is not None and offset_end <= offset_start:
        return
    for segment in view.from_offset(offset_start):
        if offset_end is not None and segment.base_offset >= offset_end:
            return
        if timestamp_ms_min is not None and _is_older(segment, timestamp_ms_min):
            continue
        start = max(offset_start, segment.base_offset)
        ends = [end for end in (offset_end, segment.offset_end) if end is not None]
        end = min(ends, default=None)
        position_end = segment.file.size_bytes
        if end is not None and end != segment.offset_end:
            position_end = segment.floor(end).position
        position = segment.floor(start).position
        if segment.file.size_bytes:
            yield _Extent(key, segment, start, end, position, position_end)


def _is_older(segment: SegmentView, timestamp_ms: int) -> bool:
    """Whether all records of a closed segment are older; the active one's index may lag behind."""
    last = segment.last_time()
    return segment.offset_end is not None and last is not None and last.timestamp < timestamp_ms


def _split(extent: _Extent, bytes_max: int) -> Iterator[tuple[int, int | None]]:
    """Cut at boundaries in the index, into parts of about the same size."""
    count = min(-(-extent.size_bytes // bytes_max), extent.segment.offset_index.count + 1)
    start = extent.offset_start
    for number in range(1, count):
        position = extent.position + number * extent.size_bytes // count
        place = extent.segment.boundary_before(position)
        if place is not None and place.offset > start:
            yield start, place.offset
            start = place.offset
    yield start, extent.offset_end
