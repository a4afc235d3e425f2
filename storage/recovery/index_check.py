"""A cheap check of a segment's indexes; those with a fault are rebuilt.

It compares the last index entries with the batches at the end of the segment, and reads short
indexes as a whole. Faults that it misses do no harm: each entry is compared with its batch when it
is used (segment.py, timestamps.py).
"""

import logging
from operator import gt
from typing import Final

from odradek.protocol.records import BatchHeader

from ..errors import CorruptLog
from ..files import FileInfo, FileSystem
from ..log.index import OFFSET_ENTRY, TIME_ENTRY, OffsetEntry
from ..log.load_report import LoadReport
from ..log.log_config import LogConfig
from ..log.segment import Segment, create_missing_indexes
from ..log.segment_scan import SegmentScan
from ..log.walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")

READ_AS_A_WHOLE_BYTES: Final = 16384
UNINDEXED_BYTES_MAX: Final = 4 << 20  # Kafka's followers add one index entry per fetch


def check_indexes(
    files: FileSystem,
    segment: Segment,
    infos: dict[str, FileInfo],
    config: LogConfig,
    report: LoadReport,
    *,
    offset_end: int | None,
) -> int | None:
    """Rebuild indexes with a visible fault; return the offset after the last batch.

    `offset_end`: where the next segment begins, if there is one. Returns None if batches are
    damaged or reach into the next segment.  Raises: UnsupportedFormat, LogDirFailed.
    """
    problem = _file_problem(segment, infos)
    if problem is None:
        problem, next_offset = _entry_problem(segment, config, offset_end)
        if problem is None:
            return next_offset
    scan = rebuild_indexes(files, segment, infos, config, report, problem)
    overlaps = offset_end is not None and scan.next_offset > offset_end
    return None if segment.damaged or overlaps else scan.next_offset


def rebuild_indexes(
    files: FileSystem,
    segment: Segment,
    infos: dict[str, FileInfo],
    config: LogConfig,
    report: LoadReport,
    problem: str,
) -> SegmentScan:
    """Rebuild both indexes from the batches.  Raises: UnsupportedFormat, LogDirFailed."""
    logger.warning("index rebuilt path=%s problem=%s", segment.file.path, problem)
    create_missing_indexes(files, segment, infos)
    scan = segment.rebuild_indexes(config)
    report.indexes_rebuilt += 1
    report.bad_batches += len(segment.damaged)
    return scan


def _file_problem(segment: Segment, infos: dict[str, FileInfo]) -> str | None:
    for index in (segment.offset_index, segment.time_index):
        info = infos.get(index.file.path.rpartition("/")[2])
        if info is None:
            return "an index is missing"
        if info.size_bytes % index.ENTRY.size:
            return "an index ends inside an entry"
        if info.size_bytes > READ_AS_A_WHOLE_BYTES:
            continue
        data = index.read_ahead()
        if not _rises(data, index.ENTRY is TIME_ENTRY):
            return "index entries do not rise"
    return None


def _rises(data: bytes, is_time_index: bool) -> bool:
    """Whether all entries strictly rise: offsets and positions, or timestamps."""
    if not data:
        return True
    struct = TIME_ENTRY if is_time_index else OFFSET_ENTRY
    firsts, seconds = zip(*struct.iter_unpack(data), strict=True)
    if firsts[0] < 0 or seconds[0] < 0 or not all(map(gt, firsts[1:], firsts)):
        return False
    return is_time_index or all(map(gt, seconds[1:], seconds))


def _entry_problem(
    segment: Segment, config: LogConfig, offset_end: int | None
) -> tuple[str | None, int]:
    """(what is wrong with the last entries, if anything; the offset after the last batch)."""
    entry = segment.offset_index.last()
    if entry is not None and not (
        entry.offset >= segment.base_offset and 0 < entry.position < segment.size_bytes
    ):
        return "the last index entry lies outside the segment", 0
    newest = segment.time_index.last()
    if newest is not None and (newest.timestamp < 0 or newest.offset < segment.base_offset):
        return "the last time index entry lies outside the segment", 0
    unindexed_bytes_max = config.index_interval_bytes + UNINDEXED_BYTES_MAX
    try:
        next_offset, headers, is_end = _walk_to_end(segment, entry, config)
    except CorruptLog as error:
        return f"no batches from the last index entry to the end of the file ({error})", 0
    if not is_end:
        return "the index ends too early", 0
    if offset_end is not None and next_offset > offset_end:
        return "the offsets reach into the next segment", 0
    if entry is not None:
        first, last = segment.offset_index.base_offsets(entry)
        if not headers or not first <= headers[0].base_offset <= last:
            return "the last index entry names another batch", 0
    newest_timestamp = -1 if newest is None else newest.timestamp
    if newest is not None and (not headers or newest.offset < headers[0].base_offset):
        # No later batch may have a greater timestamp; only a limited number is checked.
        headers = _headers_from(segment, newest.offset, unindexed_bytes_max)
    if any(header.max_timestamp > newest_timestamp for header in headers):
        return "the time index ends too early", 0
    if newest is not None:
        held = [h for h in headers if h.base_offset <= newest.offset <= h.last_offset]
        if not held or held[0].max_timestamp != newest_timestamp:
            return "the last time index entry names another batch", 0
    return None, next_offset


def _walk_to_end(
    segment: Segment, entry: OffsetEntry | None, config: LogConfig
) -> tuple[int, list[BatchHeader], bool]:
    """(next offset, headers, whether the end was reached), from the last index entry on.

    Raises: CorruptLog, LogDirFailed.
    """
    start = 0 if entry is None else entry.position
    position_max = start + config.index_interval_bytes + UNINDEXED_BYTES_MAX
    next_offset = segment.base_offset
    headers: list[BatchHeader] = []
    for position, header in walk_headers(segment.file, start, segment.size_bytes):
        if position > position_max:
            return next_offset, headers, False
        next_offset = header.next_offset
        headers.append(header)
    return next_offset, headers, True


def _headers_from(segment: Segment, offset: int, size_bytes_max: int) -> list[BatchHeader]:
    """The headers of the batches from `offset` on, within `size_bytes_max`."""
    headers: list[BatchHeader] = []
    try:
        found = segment.find(offset)
        if found is not None:
            for position, header in walk_headers(segment.file, found[1], segment.size_bytes):
                if position > found[1] + size_bytes_max:
                    break
                headers.append(header)
    except CorruptLog as error:
        logger.warning("a bad batch was skipped error=%s", error)
    return headers
