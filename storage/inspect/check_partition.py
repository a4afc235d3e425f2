"""Checks the files of one partition."""

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from odradek.protocol.records import BatchHeader

from ..errors import UnsupportedFormat
from ..files import FileSystem
from ..log.checkpoint import LEADER_EPOCH, PARTITION_METADATA, parse_partition_metadata
from ..log.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from ..log.producer_snapshot import decode_snapshot, snapshot_path
from ..log.producer_state import ProducerState
from ..log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ..log.txn_index import AbortedTransaction
from ..recovery.load import impossible
from .check_epochs import EpochCheck
from .check_segment import SegmentCheck, SegmentReport
from .context import Context
from .findings import Advance, Finding, Grade, Report

DAMAGED_SUFFIX: Final = ".damaged"
UNFINISHED_REPAIR_SUFFIX: Final = ".repair"
_OFFSET_FILE: Final = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_SAVED_FILE: Final = re.compile(r"([0-9]{20})-([0-9]{20})(?:\.[0-9]+)?\.damaged")
_SEGMENT_SUFFIXES: Final = frozenset({INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX})
_UNFINISHED: Final = {
    ".swap": "a compaction was not finished; the next start finishes it",
    ".cleaned": "left by a compaction that was not finished; the next start removes it",
    ".deleted": "left by a deletion that was not finished; the next start removes it",
    ".tmp": "left by a write that was not finished; the next start removes it",
    UNFINISHED_REPAIR_SUFFIX: "left by a repair that was not finished; it may be removed",
}


@dataclass(slots=True)
class PartitionReport:
    """What a partition contains, and which of its files are damaged."""

    directory: str
    segments: list[SegmentReport] = field(default_factory=list)
    bad_epochs: bool = False
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """The leader epochs by the batches."""
    bad_snapshots: set[int] = field(default_factory=set)
    """Snapshots that a start would not repair, by offset."""
    bad_metadata: bool = False
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of missing offsets that neither compaction nor a hole explains: first, end."""
    leftovers: list[str] = field(default_factory=list)
    """Names of files left by an unfinished repair."""
    problem: str | None = None
    """Why the partition can't be checked: old message format, or a file that no broker wrote."""

    @property
    def log_start_offset(self) -> int:
        """Base offset of the first segment."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def log_end_offset(self) -> int:
        """The offset after the last good batch."""
        return self.segments[-1].next_offset if self.segments else 0


class PartitionCheck:
    """Checks one partition directory; call `run` once."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        context: Context,
        report: Report,
        advance: Advance,
    ) -> None:
        self.result = PartitionReport(directory)
        self._files = files
        self._context = context
        self._report = report
        self._advance = advance
        self._sizes: dict[str, int] = {}
        self._snapshots: dict[int, ProducerState | None] = {}
        self._pending: list[int] = []
        self._saved: list[tuple[int, int]] = []
        self._named: set[int] = set()
        self._epochs = EpochCheck(files, directory)
        self._producers = ProducerState()
        self._expected_aborts: list[AbortedTransaction] = []
        self._next_offset = 0
        self._is_compacted = context.allow_gaps
        self._is_complete = False

    def run(self) -> PartitionReport:
        """Check every file.  Raises: LogDirFailed."""
        result, context = self.result, self._context
        bases = self._sort_files()
        self._check_metadata()
        self._read_snapshots()
        if result.problem is not None:
            return result
        for base_offset, limit in zip_longest(bases, bases[1:]):
            size_bytes = self._sizes[f"{base_offset:020d}{LOG_SUFFIX}"]
            doubtful = not context.clean and (limit is None or limit > context.recovery_point)
            result.segments.append(
                SegmentReport(result.directory, base_offset, size_bytes, limit, doubtful)
            )
        self._begin_producers()
        self._pending = sorted(self._snapshots, reverse=True)
        try:
            for segment in result.segments:
                self._check_segment(segment)
        except UnsupportedFormat as error:
            result.problem = str(error)
            self._say(error.args[0], f"{error}; Odradek leaves the partition alone", Grade.LOST)
            return result
        self._report_holes()
        self._epochs.finish(context, result.log_end_offset, self._report)
        result.bad_epochs, result.epochs = self._epochs.is_bad, self._epochs.rebuilt
        self._check_snapshots_at_end()
        self._check_offsets()
        return result

    # -- names

    def _sort_files(self) -> list[int]:
        """Report every file that does not belong here; return the base offsets of the segments."""
        infos = sorted(self._files.list_directory(self.result.directory))
        self._sizes = {info.name: info.size_bytes for info in infos if not info.is_directory}
        bases = set()
        for info in infos:
            match = _OFFSET_FILE.fullmatch(info.name)
            if info.is_directory:
                what = "a directory that does not belong here"
                self._say(self._path(info.name), what, Grade.HARMLESS)
            elif match is None:
                self._check_name(info.name)
            elif what_is_impossible := impossible(info):
                self.result.problem = what_is_impossible
                self._say(self._path(info.name), what_is_impossible, Grade.LOST)
            elif match[2] == LOG_SUFFIX:
                bases.add(int(match[1]))
            elif match[2] == SNAPSHOT_SUFFIX:
                self._snapshots[int(match[1])] = None
        for name in self._sizes:
            match = _OFFSET_FILE.fullmatch(name)
            if match and match[2] in _SEGMENT_SUFFIXES and int(match[1]) not in bases:
                what = "an index without its segment; the next start removes it"
                self._say(self._path(name), what, Grade.HARMLESS)
        if not bases:
            self._say(self.result.directory, "there is no segment", Grade.UNCLEAN)
        return sorted(bases)

    def _check_name(self, name: str) -> None:
        saved = _SAVED_FILE.fullmatch(name)
        suffix = name[name.rfind(".") :] if "." in name else ""
        if name in (LEADER_EPOCH, PARTITION_METADATA):
            return
        if saved:
            first, end = int(saved[1]), int(saved[2])
            self._saved.append((first, end))
            what = f"{self._sizes[name]} bytes that a repair has set aside"
            offsets = (first, end) if end > first else (None, None)
            self._report(Finding(self._path(name), what, Grade.HARMLESS, None, *offsets))
        elif suffix == UNFINISHED_REPAIR_SUFFIX:
            self.result.leftovers.append(name)
            self._say(self._path(name), _UNFINISHED[suffix], Grade.HARMLESS)
        elif suffix in _UNFINISHED:
            grade = Grade.UNCLEAN if suffix == ".swap" else Grade.HARMLESS
            self._say(self._path(name), _UNFINISHED[suffix], grade)
        elif suffix == DAMAGED_SUFFIX:
            what = f"{self._sizes[name]} bytes that were set aside"
            self._say(self._path(name), what, Grade.HARMLESS)
        else:
            self._say(self._path(name), "a file that does not belong here", Grade.HARMLESS)

    def _check_metadata(self) -> None:
        path = self._path(PARTITION_METADATA)
        data = self._files.read_bytes(path)
        if data:
            try:
                parse_partition_metadata(data)
            except ValueError as error:
                self.result.bad_metadata = True
                self._say(path, f"the file cannot be read: {error}", Grade.REPAIRABLE)

    # -- segments

    def _check_segment(self, segment: SegmentReport) -> None:
        self._expected_aborts = []
        check = SegmentCheck(self._files, segment, self._sizes, self._context, self._report)
        self._next_offset = max(self._next_offset, segment.base_offset)
        if segment is not self.result.segments[0]:
            before = self.result.segments[self.result.segments.index(segment) - 1]
            self._note_gap(before, before.next_offset, segment.base_offset)
        self._compare_snapshot(segment.base_offset)
        check.run(self._note_batch, self._advance)
        is_compacted = self._is_compacted or self._context.cleaner_offset is not None
        is_certain = self._is_complete and not is_compacted
        check.check_aborted(self._expected_aborts, is_certain=is_certain)

    def _note_batch(
        self, segment: SegmentReport, position: int, header: BatchHeader, data: memoryview
    ) -> None:
        offset = header.base_offset
        if header.record_count <= header.last_offset_delta:
            self._is_compacted = True
        if offset > self._next_offset:
            self._note_gap(segment, self._next_offset, offset)
        self._next_offset = header.next_offset
        self._epochs.note(segment, position, header)
        while self._pending and self._pending[-1] <= offset:
            self._compare_snapshot(self._pending.pop())
        if header.producer_id >= 0:
            ended = self._producers.note(header, data, offset, header.max_timestamp)
            if ended is not None and ended.is_aborted:
                self._expected_aborts.append(AbortedTransaction.of(ended, self._producers))

    def _note_gap(self, segment: SegmentReport, first: int, end: int) -> None:
        """Note missing offsets between two batches, unless compaction explains them."""
        if end > first and end > (self._context.cleaner_offset or 0):
            self.result.gaps.append((first, end))

    def _report_holes(self) -> None:
        result = self.result
        for segment in result.segments:
            for number, hole in enumerate(segment.holes):
                is_last_of_log = segment is result.segments[-1] and number == len(segment.holes) - 1
                is_tail = is_last_of_log and hole.position_end == segment.size_bytes
                offset_end = hole.offset_end
                if offset_end is None:
                    offset_end = segment.offset_limit
                what, grade = self._judge(segment, hole.offset_first, is_tail=is_tail)
                segment.tail_is_left = not grade.is_damage
                size_bytes = hole.position_end - hole.position
                self._report(
                    Finding(
                        segment.path(),
                        f"{size_bytes} bytes are no batch: {hole.problem}{what}",
                        grade,
                        hole.position,
                        hole.offset_first,
                        offset_end,
                    )
                )
        holes = {hole.offset_first for segment in result.segments for hole in segment.holes}
        result.gaps = [
            gap
            for gap in result.gaps
            if not (self._is_compacted or gap[0] in holes or self._is_explained(gap))
        ]
        for first, end in result.gaps:
            what = "offsets are missing, and nothing here says that compaction removed them"
            self._report(Finding(result.directory, what, Grade.LOST, None, first, end))

    def _is_explained(self, gap: tuple[int, int]) -> bool:
        first, end = gap
        for saved_first, saved_end in sorted(self._saved):
            if saved_first <= first < saved_end:
                first = saved_end
        return first >= end

    def _judge(self, segment: SegmentReport, offset: int, *, is_tail: bool) -> tuple[str, Grade]:
        """How bad a hole at `offset` is, with a comment."""
        context = self._context
        if is_tail and context.running:
            return "; it may be a write of the running broker", Grade.HARMLESS
        if not (is_tail and segment.doubtful and offset >= context.recovery_point):
            return "", Grade.LOST
        if context.high_watermark is not None and offset < context.high_watermark:
            return f", below the high watermark {context.high_watermark}", Grade.LOST
        return ", at the end of the log; the next start cuts it off", Grade.UNCLEAN

    def _check_offsets(self) -> None:
        """Report checkpointed offsets past the end of the log."""
        result, context = self.result, self._context
        end = result.log_end_offset
        if context.running:
            return
        for name, offset in (
            ("recovery point", context.recovery_point),
            ("high watermark", context.high_watermark),
            ("log start offset", context.log_start_offset),
        ):
            if offset is not None and offset > end:
                what = f"the checkpointed {name} {offset} lies past the end of the log"
                self._report(Finding(result.directory, what, Grade.LOST, None, end, offset))
        cleaner_offset = context.cleaner_offset
        if cleaner_offset is not None and cleaner_offset > end:
            what = f"the checkpointed cleaner offset {cleaner_offset} lies past the end of the log"
            self._report(Finding(result.directory, what, Grade.REPAIRABLE))

    # -- producers

    def _read_snapshots(self) -> None:
        for offset in sorted(self._snapshots):
            path = snapshot_path(self.result.directory, offset)
            try:
                state = decode_snapshot(self._files.read_bytes(path) or b"")
            except ValueError as error:
                self._bad_snapshot(offset, f"the snapshot cannot be read: {error}")
                continue
            self._snapshots[offset] = state
            for entry in state.entries():
                last_offset = entry.batches[-1].last_offset if entry.batches else -1
                if max(last_offset, entry.transaction_first_offset) >= offset:
                    what = f"producer {entry.producer_id} is ahead of the snapshot's own offset"
                    self._bad_snapshot(offset, what)
                    break

    def _begin_producers(self) -> None:
        """Take the producer state before the first segment from a snapshot, if there is one."""
        start = self.result.log_start_offset
        self._is_complete = start == 0
        state = self._snapshots.get(start)
        if start and state is not None and start not in self._named:
            self._producers = ProducerState(state.entries())
            self._is_complete = True

    def _compare_snapshot(self, offset: int) -> None:
        """Compare the snapshot at `offset` with the batches before it, which were all noted."""
        snapshot = self._snapshots.pop(offset, None)
        if snapshot is None or offset in self._named:
            return
        for entry in snapshot.entries():
            known = self._producers.entry(entry.producer_id)
            if known is None or not known.batches or not entry.batches:
                continue
            last, seen = entry.batches[-1], known.batches[-1]
            is_same = seen.last_offset == last.last_offset
            if known.producer_epoch == entry.producer_epoch and (
                seen.last_offset > last.last_offset
                or (is_same and seen.last_sequence != last.last_sequence)
            ):
                what = f"producer {entry.producer_id} is not where its batches are"
                self._bad_snapshot(offset, what)
                return

    def _check_snapshots_at_end(self) -> None:
        end = self.result.log_end_offset
        for offset in sorted(self._snapshots):
            if offset > end:
                self._bad_snapshot(offset, f"the snapshot is of {offset}, the log ends at {end}")
            else:
                self._compare_snapshot(offset)

    def _bad_snapshot(self, offset: int, what: str) -> None:
        if offset not in self._named:
            self._named.add(offset)
            doubtful = not self._context.clean and offset > self._context.recovery_point
            if not doubtful:
                self.result.bad_snapshots.add(offset)
            grade = Grade.UNCLEAN if doubtful else Grade.REPAIRABLE
            self._say(snapshot_path(self.result.directory, offset), what, grade)

    def _path(self, name: str) -> str:
        return f"{self.result.directory}/{name}"

    def _say(self, path: str, what: str, grade: Grade) -> None:
        self._report(Finding(path, what, grade))
