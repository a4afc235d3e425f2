"""One segment: a `.log` file of batches with its offset, time and transaction index."""

import contextlib
import logging
from typing import Final
from zlib import crc32

from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import NO_TIMESTAMP

from ..errors import CorruptLog, DamagedRecords, LogDirFailed
from ..files import FileInfo, FileSystem
from .damage import DamagedRange, scan_past_damage
from .index import OffsetIndex, TimeIndex
from .log_config import LogConfig
from .log_file import Bytes, LogFile
from .producer_state import EndedTransaction, ProducerState
from .segment_scan import ScanStart, SegmentScan
from .span import drop_spans
from .txn_index import AbortedTransaction, TransactionIndex
from .walk import batch_end, find_batch, floor_boundary, walk_headers

logger: Final = logging.getLogger("odradek.storage")

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


class Segment:
    """Batches from `base_offset` on, in one file, with their indexes.

    Call `prepare` before appending: loading a log does not read what only appends need (the first
    and the greatest timestamp, the position of the last index entry).
    """

    __slots__ = (
        "base_offset",
        "damaged",
        "directory",
        "file",
        "index_full",
        "index_position",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "prepared",
        "roll_by_clock",
        "roll_start_ms",
        "time_index",
        "txn_index",
    )

    def __init__(
        self, files: FileSystem, directory: str, base_offset: int, sizes: dict[str, int]
    ) -> None:
        stem = f"{base_offset:020d}"
        index, time_index = stem + INDEX_SUFFIX, stem + TIME_INDEX_SUFFIX
        path = f"{directory}/{stem}{LOG_SUFFIX}"
        self.directory = directory
        self.base_offset = base_offset
        self.damaged: tuple[DamagedRange, ...] = ()
        """The ranges known to be damaged, in order; they are not read."""
        self.file: LogFile = files.open_log(path, sizes.get(stem + LOG_SUFFIX, 0))
        self.offset_index = OffsetIndex(
            files, f"{directory}/{index}", base_offset, sizes.get(index, 0)
        )
        self.time_index = TimeIndex(
            files, f"{directory}/{time_index}", base_offset, sizes.get(time_index, 0)
        )
        txn_index = stem + TXN_INDEX_SUFFIX
        self.txn_index = TransactionIndex(files, f"{directory}/{txn_index}", sizes.get(txn_index))
        self.prepared = False
        self.index_full = False
        self.index_position = 0
        self.max_timestamp = self.max_timestamp_offset = NO_TIMESTAMP
        self.roll_by_clock = True
        self.roll_start_ms = 0

    @property
    def size_bytes(self) -> int:
        """Size of the `.log` file."""
        return self.file.size_bytes

    # -- appending

    def prepare(self, wall_ms: int, config: LogConfig) -> None:
        """Read what appends need.  Raises: LogDirFailed."""
        self._begin_rolling(NO_TIMESTAMP, wall_ms, config)
        with contextlib.suppress(CorruptLog):  # the first batch is damaged: keep the clock
            for _, header in walk_headers(self.file, 0, self.size_bytes):
                self._begin_rolling(header.max_timestamp, wall_ms, config)
                break
        last = self.offset_index.last()
        self.index_position = 0 if last is None else last.position
        self.load_max_timestamp()
        self.prepared = True

    def _begin_rolling(self, first_timestamp: int, wall_ms: int, config: LogConfig) -> None:
        """Start the segment's age at its first timestamp, or at the clock if it has none."""
        self.roll_by_clock = first_timestamp < 0
        self.roll_start_ms = wall_ms if self.roll_by_clock else first_timestamp
        if config.segment_jitter_ms:  # deterministic: segments differ by their paths
            self.roll_start_ms -= crc32(self.file.path.encode()) % config.segment_jitter_ms

    def load_max_timestamp(self) -> None:
        """Read the greatest timestamp from the time index: roll, close and recovery add it last."""
        if self.max_timestamp < 0:
            last = self.time_index.last()
            if last is not None:
                self.max_timestamp, self.max_timestamp_offset = last

    def must_roll(
        self, size_bytes: int, offset_last: int, timestamp: int, wall_ms: int, config: LogConfig
    ) -> bool:
        """Whether an append needs a new segment: by size, age, full index or offset range.

        Source: LogSegment.shouldRoll.
        """
        size_before = self.file.size_bytes
        if offset_last - self.base_offset > INT32_MAX:
            return True
        if size_before == 0:
            return False
        if size_before + size_bytes > config.segment_bytes or self.index_full:
            return True
        age_ms = (wall_ms if self.roll_by_clock else timestamp) - self.roll_start_ms
        if config.compacts and age_ms > config.max_compaction_lag_ms:
            return True  # compaction skips the active segment
        return age_ms > config.segment_ms

    def append(
        self, batch: Bytes, offset_last: int, timestamp: int, wall_ms: int, config: LogConfig
    ) -> None:
        """Append a batch.  A failure changes nothing.  Raises: DiskFull, LogDirFailed."""
        position = self.file.append(batch)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = offset_last
        if position == 0:
            self._begin_rolling(timestamp, wall_ms, config)
        elif position - self.index_position > config.index_interval_bytes:
            self._add_index_entry(offset_last, position, config)

    def _add_index_entry(self, offset_last: int, position: int, config: LogConfig) -> None:
        self.index_position = position
        self.offset_index.append(offset_last, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.index_full = (
            self.offset_index.size_bytes + 8 > config.segment_index_bytes
            or self.time_index.size_bytes + 24 > config.segment_index_bytes
        )

    def note_aborted(self, ended: EndedTransaction, producers: ProducerState) -> None:
        """Index an aborted transaction, before its marker is appended or after it was recovered.

        Raises: DiskFull (the index is then unchanged), LogDirFailed.
        """
        self.txn_index.append(AbortedTransaction.of(ended, producers))

    def finish(self) -> None:
        """Bring the files to their final form, unsynced; called on roll and close."""
        self.file.drop_staged()
        self.txn_index.forget()
        if self.prepared:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes()

    def write_indexes(self) -> None:
        """Write the index entries held in memory, unsynced.  Raises: LogDirFailed."""
        self.offset_index.write_pending()
        self.time_index.write_pending()

    # -- finding

    def find(self, offset: int) -> tuple[int, int] | None:
        """(base offset, position) of the batch with `offset`, or of the first one after it.

        None: the segment ends before `offset`.  Raises: CorruptLog, LogDirFailed.
        """
        try:
            return self._find(offset)
        except DamagedRecords:
            raise
        except CorruptLog:
            self.distrust_indexes()
        return self._find(offset)

    def _find(self, offset: int) -> tuple[int, int] | None:
        start = self._start_for(offset) if self.damaged else 0
        entry = self.offset_index.floor_offset(offset)
        if entry is None or entry.position <= start:
            return find_batch(self.file, offset, start, self.size_bytes)
        base_offsets = self.offset_index.base_offsets(entry)
        return find_batch(self.file, offset, entry.position, self.size_bytes, base_offsets)

    def _start_for(self, offset: int) -> int:
        """Where the intact range with `offset` begins.  Raises: DamagedRecords."""
        start = 0
        for damage in self.damaged:
            if offset >= damage.offset_end:
                start = damage.position_end
        self.check_intact(offset)
        return start

    def check_intact(self, offset: int) -> None:
        """Check that the offset is in no range known to be damaged.  Raises: DamagedRecords."""
        for damage in self.damaged:
            if damage.offset_first <= offset < damage.offset_end:
                raise DamagedRecords(
                    f"{self.file.path}: offsets {damage.offset_first} up to {damage.offset_end} "
                    f"are damaged: {damage.problem}"
                )

    def damage_after(self, position: int) -> DamagedRange | None:
        """The first damaged range at or after `position`."""
        return next((damage for damage in self.damaged if damage.position >= position), None)

    def floor_boundary(self, position: int, limit: int) -> tuple[int, int]:
        """(position, offset) of the last batch boundary in [position, limit].

        `position` is a boundary and `limit` is before the end.  Raises: CorruptLog, LogDirFailed.
        """
        entry = self.offset_index.floor_position(limit)
        if entry is not None and entry.position > position:
            try:
                return floor_boundary(
                    self.file,
                    entry.position,
                    self.size_bytes,
                    limit,
                    self.offset_index.base_offsets(entry),
                )
            except CorruptLog:
                self.distrust_indexes()
        return floor_boundary(self.file, position, self.size_bytes, limit)

    def batch_end(self, position: int) -> tuple[int, int]:
        """(end position, next offset) of the batch at `position`."""
        return batch_end(self.file, position, self.size_bytes)

    def distrust_indexes(self) -> None:
        """Rebuild the indexes, since an entry is wrong.  Raises: LogDirFailed."""
        logger.warning("index does not fit its segment, rebuilt path=%s", self.file.path)
        self.rebuild_indexes(LogConfig())

    # -- repairing

    def rebuild_indexes(self, config: LogConfig) -> SegmentScan:
        """Scan the whole segment and rewrite its indexes.  Raises: LogDirFailed."""
        interval_bytes = config.index_interval_bytes
        scan, damaged = scan_past_damage(
            self.file, self.base_offset, index_interval_bytes=interval_bytes
        )
        self.note_damage(damaged)
        self.offset_index.replace(scan.offset_entries)
        self.time_index.replace(scan.time_entries)
        self._take_scan(scan)
        return scan

    def note_damage(self, damaged: tuple[DamagedRange, ...]) -> None:
        """Log these damaged ranges, and stop serving them."""
        self.damaged = damaged
        for damage in damaged:
            logger.error(
                "segment damaged path=%s position=%d bytes=%d offsets=%d..%d problem=%s",
                self.file.path,
                damage.position,
                damage.position_end - damage.position,
                damage.offset_first,
                damage.offset_end - 1,
                damage.problem,
            )

    def _forget_damage(self, position: int) -> None:
        """Forget the damage from `position` on: that part was verified, or removed."""
        self.damaged = tuple(damage for damage in self.damaged if damage.position < position)

    def _take_scan(self, scan: SegmentScan) -> None:
        self.max_timestamp = scan.max_timestamp
        self.max_timestamp_offset = scan.max_timestamp_offset
        self.index_position = scan.index_position
        self.time_index.append(scan.max_timestamp, scan.max_timestamp_offset)
        self.write_indexes()
        self.prepared = False

    def recover(self, start: ScanStart, scan: SegmentScan) -> None:
        """Apply the result of a scan from `start`, and cut off what it did not accept."""
        if scan.position_end < self.size_bytes:
            self.file.truncate(scan.position_end)
        for index, kept, new in (
            (self.offset_index, start.offset_entries, scan.offset_entries),
            (self.time_index, start.time_entries, scan.time_entries),
        ):
            index.replace(kept + new)
        self._forget_damage(start.position)
        self._take_scan(scan)

    def truncate(self, position_end: int, offset_end: int) -> None:
        """Truncate at a batch boundary: `offset_end` will be appended at `position_end`."""
        drop_spans(self.file, position_end)
        self.offset_index.truncate(position_end)
        self.time_index.truncate(offset_end)
        self.txn_index.truncate(offset_end)
        self.file.truncate(position_end)
        self._forget_damage(position_end)
        entry = self.offset_index.last()
        self.max_timestamp = self.max_timestamp_offset = NO_TIMESTAMP
        self.load_max_timestamp()
        # The time index covers the entry's own append; later batches may have greater timestamps.
        with contextlib.suppress(CorruptLog):  # damage before the end must not abort the truncation
            for _, header in walk_headers(self.file, entry.position if entry else 0, position_end):
                if header.max_timestamp > self.max_timestamp:
                    self.max_timestamp = header.max_timestamp
                    self.max_timestamp_offset = header.last_offset
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.prepared = False
        self.index_full = False

    # -- ending

    def paths(self) -> list[str]:
        """The paths of all files of the segment, whether they exist or not."""
        return [file.path for file in (*self.all_files()[:3], self.txn_index.file)]

    def all_files(self) -> tuple[LogFile, ...]:
        """Log, offset index, time index, and the transaction index if there is one."""
        files = self.file, self.offset_index.file, self.time_index.file
        return files if self.txn_index.is_empty else (*files, self.txn_index.file)

    def rest(self) -> None:
        """Close descriptors and drop cached entries; the next use reopens the files."""
        self.offset_index.forget()
        self.time_index.forget()
        self.txn_index.forget()
        for file in self.all_files():
            file.rest()

    def close(self) -> None:
        """Close the files; open spans keep theirs.  Call `finish` first to keep the indexes."""
        for file in (*self.all_files(), self.txn_index.file):
            file.close()


def create_segment(files: FileSystem, directory: str, base_offset: int) -> Segment:
    """Create the three files of an empty segment.  Raises: LogDirFailed."""
    segment = Segment(files, directory, base_offset, {})
    try:
        for file in segment.all_files():
            files.create(file.path)
    except LogDirFailed:
        # An empty segment must not remain: the next appends may be below its base offset.
        with contextlib.suppress(LogDirFailed):
            for path in segment.paths():
                files.unlink(path)
        raise
    return segment


def create_missing_indexes(files: FileSystem, segment: Segment, infos: dict[str, FileInfo]) -> None:
    """Create the index files missing from the directory listing.  Raises: LogDirFailed."""
    for index in (segment.offset_index.file, segment.time_index.file):
        name = index.path.rpartition("/")[2]
        if name not in infos:
            files.create(index.path)
            infos[name] = FileInfo(name, is_directory=False, size_bytes=0)
