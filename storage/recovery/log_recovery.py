"""Recovery of a partition after an unclean shutdown: what to scan, from where, what to cut off."""

import contextlib
import logging
from typing import Final

from odradek.protocol.records import BatchHeader

from ..errors import CorruptLog
from ..files import FileInfo, FileSystem
from ..log.index import OFFSET_ENTRY, TIME_ENTRY
from ..log.load_report import LoadReport
from ..log.log_config import LogConfig
from ..log.log_file import LogFile
from ..log.producer_rebuild import (
    remove_snapshots_above,
    replay_producers,
    snapshot_of_log,
    transaction_index_problem,
)
from ..log.producer_state import ProducerState
from ..log.resync import Doubtful, find_valid_batch
from ..log.segment import Segment, create_missing_indexes
from ..log.segment_scan import Report, ScanStart, SegmentScan, scan_segment
from ..log.segments import Segments
from ..log.walk import walk_headers
from .aside import set_aside_file, set_aside_tail

logger: Final = logging.getLogger("odradek.storage")


class LogRecovery:
    """One partition's recovery, and its findings."""

    __slots__ = (
        "_config",
        "_directory",
        "_files",
        "_infos",
        "_may_lack",
        "_on_progress",
        "doubted",
        "epochs",
        "high_watermark",
        "log_end_offset",
        "producers",
        "recovered",
        "recovery_point",
        "report",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        infos: dict[str, FileInfo],
        *,
        config: LogConfig,
        recovery_point: int,
        high_watermark: int,
        may_lack: bool = False,
        report: LoadReport,
        on_progress: Report | None = None,
    ) -> None:
        """`may_lack`: an unfinished copy or compaction explains missing offsets."""
        self._files = files
        self._directory = directory
        self._infos = infos
        self._config = config
        self._may_lack = config.compacts or may_lack
        self.recovery_point = recovery_point
        self.epochs: list[tuple[int, int]] = []
        self.log_end_offset = 0
        self.producers = ProducerState()
        self.recovered: list[Segment] = []
        self.doubted: list[Segment] = []
        """Segments with an unreliable transaction index, even below the position scanned."""
        self.high_watermark = high_watermark
        self.report = report
        self._on_progress = on_progress

    def run(self, segments: Segments) -> None:
        """Scan from the recovery point on, and cut the log at the first bad batch.

        Raises: UnsupportedFormat, DiskFull, LogDirFailed.
        """
        self._run(segments)
        if self.log_end_offset < self.recovery_point:
            # Synced records are gone, or the checkpoint belongs to another log: trust nothing.
            logger.warning(
                "log ends before its recovery point, the whole log is scanned directory=%s "
                "log_end_offset=%d recovery_point=%d",
                self._directory,
                self.log_end_offset,
                self.recovery_point,
            )
            self.recovery_point = 0
            self.epochs, self.recovered, self.report.scanned_bytes = [], [], 0
            self.report.lost_committed, self.report.gap_offset = 0, None
            self._run(segments)

    def cut_finished(self, segments: Segments) -> None:
        """Cut the segment that ends at the recovery point to that end, and mark it unsynced.

        The roll cut off staged bytes beyond it (`staging.py`), but a power cut may undo that: if
        all its batches were already synced, no fsync followed the roll.  Call this before `run`.
        Raises: LogDirFailed.
        """
        offset = self.recovery_point
        finished = segments.before_offset(offset)
        if not finished or segments.from_offset(offset)[0].base_offset != offset:
            return
        segment = finished[-1]
        self.recovered.append(segment)
        with contextlib.suppress(CorruptLog):  # other damage stays as it is
            found = segment.find(offset - 1)
            if found is None:
                return
            base_offset, position = found
            if base_offset < offset:
                position, next_offset = segment.batch_end(position)
                if next_offset != offset:
                    return
            if position < segment.size_bytes:
                segment.truncate(position, offset)

    def _run(self, segments: Segments) -> None:
        todo = segments.from_offset(self.recovery_point)
        for segment in todo:  # checking the snapshots may read any of them
            create_missing_indexes(self._files, segment, self._infos)
        start = self._scan_start(todo[0])
        # Snapshots above the recovery point may describe batches that were lost or rewritten.
        offsets = remove_snapshots_above(
            self._files, self._directory, self._infos, self.recovery_point
        )
        state_offset, producers = snapshot_of_log(
            self._files, self._directory, segments, offsets, offset_max=self.recovery_point
        )
        replay_producers(producers, segments, state_offset, start.next_offset)

        self.producers = producers
        self.log_end_offset = start.next_offset
        for segment in todo:
            if segment.base_offset < self.log_end_offset and segment is not todo[0]:
                # Left by a failed roll, after which appends continued in the segment before it.
                gone = segments.cut_after(segment)
                segments.remove_active()
                self._remove([segment, *gone], "the segment before it goes on")
                break
            self._note_missing(segment.base_offset)
            problem = self._scan(segment, segments, start, state_offset)
            if problem is not None:
                self._remove(segments.cut_after(segment), "the log ends before it")
                break
            start = ScanStart()
        self.log_end_offset = max(self.log_end_offset, segments.active.base_offset)

    def _note_missing(self, base_offset: int) -> None:
        """Report offsets missing before a segment: a power cut may lose the end of the one before.

        The segment itself stays.
        """
        first = self.log_end_offset
        if base_offset <= first or self._may_lack:
            return
        if self.report.gap_offset is None:
            self.report.gap_offset = first
        lost = max(0, min(base_offset, self.high_watermark) - first)
        self.report.lost_committed += lost
        logger.error(
            "records are missing directory=%s offsets=%d..%d committed=%d",
            self._directory,
            first,
            base_offset - 1,
            lost,
        )

    def note_missing_start(
        self, segments: Segments, *, log_start_offset: int, recovery_point: int
    ) -> None:
        """Report that the first segments are missing, by the checkpoints; call this after `run`.

        A log start at or above the recovery point was checkpointed because nothing from there on
        was synced, not even file names (see `checkpoint_plan`). Kafka checkpoints no log start at
        which a segment begins, and 0 says nothing.
        """
        first_offset = segments.first_offset
        is_known = log_start_offset > 0 and recovery_point <= log_start_offset
        if not (is_known and log_start_offset < first_offset) or self._may_lack:
            return
        lost = max(0, min(first_offset, self.high_watermark) - log_start_offset)
        self.report.gap_offset = log_start_offset
        self.report.lost_committed += lost
        logger.error(
            "first segments are missing directory=%s offsets=%d..%d committed=%d",
            self._directory,
            log_start_offset,
            first_offset - 1,
            lost,
        )

    def _scan(
        self, segment: Segment, segments: Segments, start: ScanStart, state_offset: int
    ) -> str | None:
        """Recover one segment; return why the log must end there, if so.

        `state_offset`: the offset of the producer snapshot in use.
        """
        producers = self.producers

        def note(header: BatchHeader, batch: memoryview) -> None:
            if header.base_offset >= state_offset:
                offset = header.base_offset
                ended = producers.note(header, batch, offset, header.max_timestamp)
                if ended is not None and ended.is_aborted:
                    segment.note_aborted(ended, producers)

        start.next_offset = self.log_end_offset
        if transaction_index_problem(segment, segments) is not None:
            self.doubted.append(segment)
        segment.txn_index.truncate(max(start.next_offset, state_offset))
        later = segments.from_offset(segment.base_offset)[1:]
        offset_end = next((other.base_offset for other in later if other.size_bytes), None)
        scan = scan_segment(
            segment.file,
            segment.base_offset,
            start,
            index_interval_bytes=self._config.index_interval_bytes,
            offset_end=offset_end,
            gap_at_end=offset_end is not None or self._config.compacts,
            on_producer_batch=note,
            report=self._on_progress,
        )
        if scan.problem is not None:
            self._note_cut(segment, scan, offset_end)
        segment.recover(start, scan)
        self.log_end_offset = scan.next_offset
        self.recovered.append(segment)
        self.report.scanned_bytes += scan.position_end - start.position
        self.epochs += scan.epochs
        return scan.problem

    def _note_cut(self, segment: Segment, scan: SegmentScan, offset_end: int | None) -> None:
        """Log a cut, and set the rest of the segment aside unless a crash explains it."""
        position, problem = scan.position_end, scan.problem or ""
        logger.warning(
            "log cut path=%s position=%d cut_bytes=%d next_offset=%d problem=%s",
            segment.file.path,
            position,
            segment.size_bytes - position,
            scan.next_offset,
            problem,
        )
        self.report.bad_batches += 1
        if (
            offset_end is not None
            or scan.next_offset < self.high_watermark
            or _goes_on(segment.file, position, scan.next_offset)
        ):
            size_bytes = set_aside_tail(self._files, segment.file, position, problem)
            self.report.set_aside_bytes += size_bytes

    def _remove(self, segments: list[Segment], reason: str) -> None:
        for segment in segments:
            segment.close()
            if segment.size_bytes:
                size_bytes = set_aside_file(self._files, segment.file, reason)
                self.report.set_aside_bytes += size_bytes
            else:
                logger.warning("empty segment removed path=%s", segment.file.path)
            for path in segment.paths():
                self._files.unlink(path)

    def _scan_start(self, segment: Segment) -> ScanStart:
        """Where the scan of the first segment begins: at the last index entry below the recovery
        point that can be trusted, or at the beginning of the segment.

        The index may be zero-padded (Kafka preallocates) or too short (it was not synced).
        """
        start = ScanStart(next_offset=segment.base_offset)
        # A batch is longer than its entry, so an index longer than the segment ends in garbage.
        entries = _read(segment.offset_index.file, segment.size_bytes)
        count, previous, last = _rising_entries(
            entries,
            offset_end=self.recovery_point - segment.base_offset,
            position_end=segment.size_bytes,
        )
        found = _probe(segment, last[1]) if count else None
        if found is not None and previous[0] < found - segment.base_offset <= last[0]:
            start.next_offset = found
            start.position = start.index_position = last[1]
            start.offset_entries = entries[: count * OFFSET_ENTRY.size]
            _keep_time_entries(segment, start, last[0])
        segment.offset_index.replace(start.offset_entries)
        segment.time_index.replace(start.time_entries)
        return start


def _goes_on(file: LogFile, position: int, offset: int) -> bool:
    """Whether valid batches follow a bad one, so that it is not just the torn end of the log."""
    try:
        return find_valid_batch(file, position, offset_first=offset) is not None
    except Doubtful:
        return True


def _read(file: LogFile, size_bytes_max: int) -> bytes:
    return file.pread(min(file.size_bytes, size_bytes_max), 0)


def _rising_entries(
    entries: bytes, *, offset_end: int, position_end: int
) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """The leading entries that rise and are below the ends: count, last but one, last.

    Offsets are relative to the segment's base offset, as in the file.
    """
    count, previous, last = 0, (-1, 0), (-1, 0)
    whole_bytes = len(entries) // OFFSET_ENTRY.size * OFFSET_ENTRY.size
    for entry in OFFSET_ENTRY.iter_unpack(memoryview(entries)[:whole_bytes]):
        relative_offset, position = entry
        if not (last[0] < relative_offset < offset_end and last[1] < position < position_end):
            break
        count, previous, last = count + 1, last, (relative_offset, position)
    return count, previous, last


def _keep_time_entries(segment: Segment, start: ScanStart, relative_offset_last: int) -> None:
    """Keep the time index entries up to the last offset of the kept offset index entries."""
    entries = _read(segment.time_index.file, segment.size_bytes)
    count, last = 0, (-1, -1)
    whole_bytes = len(entries) // TIME_ENTRY.size * TIME_ENTRY.size
    for entry in TIME_ENTRY.iter_unpack(memoryview(entries)[:whole_bytes]):
        timestamp, relative_offset = entry
        if timestamp <= last[0] or not last[1] <= relative_offset <= relative_offset_last:
            break
        count, last = count + 1, (timestamp, relative_offset)
    start.time_entries = entries[: count * TIME_ENTRY.size]
    if count:
        start.max_timestamp = last[0]
        start.max_timestamp_offset = segment.base_offset + last[1]


def _probe(segment: Segment, position: int) -> int | None:
    """Base offset of the batch at `position`, if there is one."""
    try:
        for _, header in walk_headers(segment.file, position, segment.size_bytes):
            return header.base_offset
    except CorruptLog:
        pass
    return None
