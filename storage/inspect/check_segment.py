"""Checks the files of one segment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import BatchHeader, iter_records

from ..errors import CorruptLog, UnsupportedFormat
from ..files import FileSystem
from ..log.index import OFFSET_ENTRY, TIME_ENTRY
from ..log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ..log.segment_scan import ScanStart, scan_segment
from ..log.txn_index import AbortedTransaction, decode_aborted
from .check_index import OffsetIndexCheck, TimeIndexCheck, padding_bytes
from .context import Context
from .findings import Advance, Finding, Grade, Report
from .pieces import Piece, SegmentReader

_STEP_BYTES: Final = 1 << 20
OnBatch = Callable[["SegmentReport", int, BatchHeader, memoryview], None]
"""Called for every good batch: segment, position, header, bytes (only valid during the call)."""


class Hole(NamedTuple):
    """Bytes that are not a batch; `offset_end`: base offset of the next good batch, if any."""

    position: int
    position_end: int
    offset_first: int
    offset_end: int | None
    problem: str


class Run(NamedTuple):
    """Adjacent good batches."""

    position: int
    position_end: int
    base_offset: int
    next_offset: int


@dataclass(slots=True)
class SegmentReport:
    """What a segment contains, and which of its files are damaged."""

    directory: str
    base_offset: int
    size_bytes: int
    offset_limit: int | None
    """Base offset of the next segment, if there is one."""
    doubtful: bool
    """Whether an unclean shutdown may explain damage."""
    next_offset: int = 0
    holes: list[Hole] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    base_offset_fixes: dict[int, int] = field(default_factory=dict)
    """Position of a batch -> its correct base offset."""
    epoch_fixes: dict[int, int] = field(default_factory=dict)
    """Position of a batch -> its correct leader epoch."""
    bad_indexes: set[str] = field(default_factory=set)
    """Suffixes of the indexes to rebuild."""
    tail_is_left: bool = False
    """Whether the last hole is the log's end, which repair leaves to the next start."""
    aborted: list[AbortedTransaction] | None = None
    """The entries of the `.txnindex`; None: it is corrupt."""

    def path(self, suffix: str = LOG_SUFFIX) -> str:
        """The path of one of the segment's files."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def must_be_rewritten(self) -> bool:
        """Whether there are holes or batches to correct that the next start will not handle."""
        holes = len(self.holes) - self.tail_is_left
        return bool(holes or self.base_offset_fixes or self.epoch_fixes)


class SegmentCheck:
    """Checks one segment in one walk."""

    def __init__(
        self,
        files: FileSystem,
        segment: SegmentReport,
        sizes: dict[str, int],
        context: Context,
        report: Report,
    ) -> None:
        """`sizes`: sizes of the files in the directory, by name."""
        self.segment = segment
        self._files = files
        self._sizes = sizes
        self._context = context
        self._report = report
        offsets = self._entries(INDEX_SUFFIX)
        times = self._entries(TIME_INDEX_SUFFIX)
        self._offsets = OffsetIndexCheck(offsets or b"", segment.base_offset)
        self._times = TimeIndexCheck(times or b"", segment.base_offset)

    def run(self, on_batch: OnBatch, advance: Advance) -> None:
        """Check batches and indexes.  Raises: UnsupportedFormat, LogDirFailed."""
        segment = self.segment
        file = self._files.open_log(segment.path(), segment.size_bytes)
        is_known = self._context.clean and segment.offset_limit is None
        reader = SegmentReader(
            file,
            segment.base_offset,
            offset_end=segment.offset_limit,
            log_end_offset=self._context.recovery_point if is_known else None,
        )
        segment.next_offset = segment.base_offset
        unsaid_bytes = 0
        try:
            for piece in reader.pieces():
                batch = piece.batch
                if batch is None:
                    self._refuse_old_format(piece, reader)
                    self._note_hole(piece)
                else:
                    self._note_batch(piece, batch)
                    self._offsets.note(piece.position, batch)
                    self._times.note(piece.position, batch)
                    data = reader.read(piece)
                    on_batch(segment, piece.position, batch, data)
                    if self._context.deep:
                        self._decode(piece, batch, data)
                unsaid_bytes += piece.size_bytes
                if unsaid_bytes >= _STEP_BYTES:
                    advance(unsaid_bytes)
                    unsaid_bytes = 0
        finally:
            file.close()
        advance(unsaid_bytes)
        self._finish()

    def _note_batch(self, piece: Piece, batch: BatchHeader) -> None:
        segment = self.segment
        if piece.expected_offset is not None:
            segment.base_offset_fixes[piece.position] = piece.expected_offset
            self._say(
                LOG_SUFFIX,
                f"{piece.problem}; by its neighbours it must be {piece.expected_offset}",
                Grade.REPAIRABLE,
                position=piece.position,
            )
        runs, holes = segment.runs, segment.holes
        if holes and holes[-1].position_end == piece.position:
            holes[-1] = holes[-1]._replace(offset_end=batch.base_offset)
        if runs and runs[-1].position_end == piece.position:
            runs[-1] = runs[-1]._replace(
                position_end=piece.position_end, next_offset=batch.next_offset
            )
        else:
            runs.append(
                Run(piece.position, piece.position_end, batch.base_offset, batch.next_offset)
            )
        segment.next_offset = batch.next_offset

    def _note_hole(self, piece: Piece) -> None:
        holes = self.segment.holes
        if holes and holes[-1].position_end == piece.position:
            holes[-1] = holes[-1]._replace(position_end=piece.position_end)
        else:
            assert piece.problem is not None
            next_offset = self.segment.next_offset
            holes.append(Hole(piece.position, piece.position_end, next_offset, None, piece.problem))

    def _refuse_old_format(self, piece: Piece, reader: SegmentReader) -> None:
        """Raise for valid messages of format 0 or 1: they are not damage.

        Raises: UnsupportedFormat.
        """
        if bytes(reader.read(piece)[16:17]) not in (b"\0", b"\1"):
            return
        file = self._files.open_log(self.segment.path(), self.segment.size_bytes)
        try:
            start = ScanStart(position=piece.position)
            scan_segment(file, self.segment.base_offset, start, index_interval_bytes=1 << 30)
        finally:
            file.close()

    def _decode(self, piece: Piece, batch: BatchHeader, data: memoryview) -> None:
        count, previous = 0, batch.base_offset - 1
        problem = None
        try:
            for record in iter_records(data, batch, size_bytes_max=self._context.record_bytes_max):
                if not previous < record.offset <= batch.last_offset:
                    problem = f"record {count} has offset {record.offset}"
                elif record.timestamp > batch.max_timestamp:
                    problem = f"record {count} is later than the batch's greatest timestamp"
                count, previous = count + 1, record.offset
        except MalformedMessage as error:
            problem = f"record {count} cannot be read: {error}"
        if problem is not None:
            # The checksum is right, so the producer sent it like this, and repair can't help.
            self._say(
                LOG_SUFFIX,
                f"{problem}, in a batch whose checksum is right",
                Grade.LOST,
                position=piece.position,
                offset_first=batch.base_offset,
                offset_end=batch.next_offset,
            )

    # -- indexes

    def _entries(self, suffix: str) -> bytes | None:
        """The entries of an index, without padding; None (and reported) if there is no file."""
        name = self.segment.path(suffix).rpartition("/")[2]
        if name not in self._sizes:
            self._bad_index(suffix, "the index is missing")
            return None
        data = self._files.read_bytes(self.segment.path(suffix)) or b""
        entry = OFFSET_ENTRY if suffix == INDEX_SUFFIX else TIME_ENTRY
        padding = padding_bytes(data, entry)
        if padding:
            self._bad_index(suffix, f"{padding} bytes of zeros are behind its entries")
        return data[: len(data) - padding]

    def _bad_index(self, suffix: str, what: str) -> None:
        if suffix in self.segment.bad_indexes:
            return
        self.segment.bad_indexes.add(suffix)
        grade = Grade.UNCLEAN if self.segment.doubtful else Grade.REPAIRABLE
        self._say(suffix, what, grade)

    def _finish(self) -> None:
        is_complete = self._context.clean or self.segment.offset_limit is not None
        self._offsets.finish()
        self._times.finish(is_complete=is_complete and not self.segment.doubtful)
        for suffix, problem in (
            (INDEX_SUFFIX, self._offsets.problem),
            (TIME_INDEX_SUFFIX, self._times.problem),
        ):
            if problem is not None:
                self._bad_index(suffix, problem)
        self._read_aborted()

    def _read_aborted(self) -> None:
        segment = self.segment
        segment.aborted = []
        name = segment.path(TXN_INDEX_SUFFIX).rpartition("/")[2]
        if name in self._sizes:
            try:
                data = self._files.read_bytes(segment.path(TXN_INDEX_SUFFIX)) or b""
                segment.aborted = decode_aborted(data)
            except CorruptLog as error:
                segment.aborted = None
                self._bad_index(TXN_INDEX_SUFFIX, str(error))

    def check_aborted(self, expected: list[AbortedTransaction], *, is_certain: bool) -> None:
        """Compare the `.txnindex` with the batches; `is_certain`: `expected` is complete."""
        if self.segment.aborted is None:
            return
        actual = {entry.last_offset: entry for entry in self.segment.aborted}
        for entry in expected:
            found = actual.pop(entry.last_offset, None)
            if found is None:
                what = f"producer {entry.producer_id}'s abort at {entry.last_offset} is missing"
                return self._bad_index(TXN_INDEX_SUFFIX, what)
            if found.producer_id != entry.producer_id or (is_certain and found != entry):
                return self._bad_index(TXN_INDEX_SUFFIX, f"{found} should be {entry}")
        if actual and is_certain and not self.segment.holes:
            offset = min(actual)
            self._bad_index(TXN_INDEX_SUFFIX, f"no transaction was aborted at {offset}")

    def _say(
        self,
        suffix: str,
        what: str,
        grade: Grade,
        *,
        position: int | None = None,
        offset_first: int | None = None,
        offset_end: int | None = None,
    ) -> None:
        path = self.segment.path(suffix)
        self._report(Finding(path, what, grade, position, offset_first, offset_end))


def check_format(error: UnsupportedFormat) -> str:
    """The message to show for an old message format."""
    return f"{error}; Odradek leaves them alone"
