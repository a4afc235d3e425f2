"""Damage in the middle of a segment: the intact batches before and after it stay readable."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.protocol.primitives import INT32_MAX

from .leader_epochs import UNDEFINED
from .log_file import LogFile
from .resync import Doubtful, find_valid_batch
from .segment_scan import Report, ScanStart, SegmentScan, scan_segment
from .walk import walk_headers

RANGES_MAX: Final = 1000  # per segment; after that the rest of it counts as damaged


class DamagedRange(NamedTuple):
    """A range of bytes, and the offsets in it; both half-open."""

    position: int
    position_end: int
    offset_first: int
    offset_end: int
    problem: str


def find_wrong_epochs(file: LogFile, epochs: Sequence[Sequence[int]]) -> tuple[DamagedRange, ...]:
    """The batches whose leader epoch, which no checksum covers, is not the one in `epochs`.

    `epochs`: (epoch, start offset) pairs, rising.  The segment must be intact otherwise.
    Raises: CorruptLog, LogDirFailed.
    """
    starts = [start for _, start in epochs]
    wrong: list[DamagedRange] = []
    for position, header in walk_headers(file, 0, file.size_bytes):
        index = bisect_right(starts, header.base_offset) - 1
        epoch = header.partition_leader_epoch
        if index < 0 or epoch in (epochs[index][0], UNDEFINED) or len(wrong) == RANGES_MAX:
            continue
        problem = f"leader epoch {epoch} where {epochs[index][0]} was expected"
        end = position + header.size_bytes
        wrong.append(DamagedRange(position, end, header.base_offset, header.next_offset, problem))
    return tuple(wrong)


def scan_past_damage(
    file: LogFile,
    base_offset: int,
    *,
    index_interval_bytes: int,
    offset_end: int | None = None,
    report: Report | None = None,
) -> tuple[SegmentScan, tuple[DamagedRange, ...]]:
    """Verify a whole segment; after a bad batch continue with the next good one.

    The scan covers all good batches as if they were adjacent.
    Raises: UnsupportedFormat, LogDirFailed.
    """
    if offset_end is None:
        offset_end = base_offset + INT32_MAX + 1
    start = ScanStart()
    damaged: list[DamagedRange] = []
    epochs: list[tuple[int, int]] = []
    while True:
        scan = scan_segment(
            file,
            base_offset,
            start,
            index_interval_bytes=index_interval_bytes,
            offset_end=offset_end,
            report=report,
        )
        scan.offset_entries[:0], scan.time_entries[:0] = start.offset_entries, start.time_entries
        epochs += [e for e in scan.epochs if not epochs or e[0] > epochs[-1][0]]
        if scan.problem is None:
            break
        position, next_offset = scan.position_end, scan.next_offset
        try:
            found = find_valid_batch(
                file, position + 1, offset_first=next_offset, offset_end=offset_end, chained=True
            )
        except Doubtful:
            found = None
        if found is None or len(damaged) == RANGES_MAX - 1:
            rest = position, file.size_bytes, next_offset, offset_end
            damaged.append(DamagedRange(*rest, scan.problem))
            break
        damaged.append(
            DamagedRange(position, found.position, next_offset, found.base_offset, scan.problem)
        )
        start = ScanStart(
            found.position,
            found.base_offset,
            scan.index_position,
            scan.max_timestamp,
            scan.max_timestamp_offset,
            bytes(scan.offset_entries),
            bytes(scan.time_entries),
        )
    scan.epochs = epochs
    return scan, tuple(damaged)
