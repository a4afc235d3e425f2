"""The log of one partition: the broker appends to it, reads from it, truncates and flushes it.

Ordering rules. A batch is written first; offsets, index entries, epochs and producer state follow,
so a failed write leaves no trace. The only exception is the entry for an aborted transaction: it is
written before its batch, since a full disk may fail it, and removed if the batch fails. The
recovery point moves only after an fsync of everything below it (data, indexes of finished segments,
epochs, a producer snapshot, the directory). Everything above it is scanned after an unclean
shutdown (recovery/load.py).

A log is owned by the event loop, and synchronous. Slow work is returned as plans: see `flush_plan`
and `delete`.
"""

import contextlib
from typing import Final

from odradek.protocol.primitives import INT32_MAX, INT64_MAX
from odradek.protocol.records import CONTROL, BatchHeader, set_append_time, set_offset_and_epoch

from ..errors import BatchTooLarge, DiskFull, LogDirFailed, OffsetOutOfRange
from ..files import FileSystem
from .checkpoint import PARTITION_METADATA, render_partition_metadata
from .flush import Flushing
from .following import Appended, append_as_follower, append_staged, stage
from .leader_epochs import LeaderEpochs
from .load_report import LoadReport
from .log_config import LogConfig
from .plans import DeletePlan, FlushPlan
from .producer_rebuild import rebuild_producers, remove_snapshots_above
from .producer_state import ProducerState
from .reader import Reader
from .segment import Segment, create_segment
from .segments import Segments
from .span import Span, drop_spans
from .staging import Staged
from .timestamps import TimestampOffset, max_timestamp_offset, offset_for_timestamp
from .txn_index import AbortedTransaction
from .walk import walk_headers

DIRECTORY_NAME_MAX: Final = 255
DELETED_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"


class Log:
    """One partition's segments, offsets, producers and leader epochs."""

    __slots__ = (
        "_high_watermark",
        "cleaner_offset",
        "config",
        "directory",
        "epochs",
        "files",
        "flushing",
        "generation",
        "loaded",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "reader",
        "segments",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        topic: str,
        partition: int,
        topic_id: bytes | None,
        config: LogConfig,
        segments: Segments,
        producers: ProducerState,
        epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.files = files
        self.reader = Reader(segments)
        self._high_watermark = log_start_offset
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.flushing = Flushing(files, directory, recovery_point, log_start_offset)
        self.cleaner_offset: int | None = None
        """The first offset that was never compacted, as in cleaner-offset-checkpoint."""
        self.generation = 0
        """Rises with every truncation: results computed in an earlier generation are void."""
        self.loaded: LoadReport | None = None
        """What loading found, if there was anything to report."""

    def __repr__(self) -> str:
        return f"Log({self.topic}-{self.partition} {self.log_start_offset}..{self.log_end_offset})"

    # -- offsets

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is replicated.  Setting it never moves it back."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        if offset > self._high_watermark:
            self._high_watermark = min(offset, self.log_end_offset)
            transactions = self.producers.transactions
            if transactions.unreplicated:
                transactions.replicated(self._high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended, and its marker is replicated.

        It lies in [log start, high watermark].
        """
        first = self.producers.transactions.first_unstable_offset
        return min(max(first, self.log_start_offset), self._high_watermark)

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is safe on disk."""
        return self.flushing.recovery_point

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended since the last flush plan."""
        return self.flushing.unflushed_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on disk."""
        return self.segments.size_bytes

    # -- appending

    def append(
        self, batch: memoryview, header: BatchHeader, *, leader_epoch: int, wall_ms: int
    ) -> int:
        """Append one validated batch as the leader; return its base offset.

        Writes the offset, the epoch and, with LogAppendTime, the timestamp into `batch`.
        Idempotent batches must have passed `producers.check`.  Raises: BatchTooLarge, DiskFull,
        LogDirFailed; the log is then unchanged.
        """
        config = self.config
        base_offset = self.log_end_offset
        timestamp = header.max_timestamp
        if len(batch) > config.segment_bytes:
            raise BatchTooLarge(f"{len(batch)} bytes do not fit into {config.segment_bytes}")
        if config.message_timestamp_log_append:
            timestamp = wall_ms
            set_append_time(batch, wall_ms)
        set_offset_and_epoch(batch, base_offset, leader_epoch)
        self.append_as_is(batch, header, base_offset, leader_epoch, timestamp, wall_ms)
        return base_offset

    def append_as_follower(
        self,
        batches: memoryview,
        *,
        wall_ms: int,
        batches_max: int = INT32_MAX,
        bytes_max: int = INT32_MAX,
        epoch_max: int = INT32_MAX,
        gaps_before: int = INT64_MAX,
    ) -> Appended:
        """Append batches that were fetched from the leader, byte for byte; see `following`."""
        return append_as_follower(
            self,
            batches,
            wall_ms=wall_ms,
            batches_max=batches_max,
            bytes_max=bytes_max,
            epoch_max=epoch_max,
            gaps_before=gaps_before,
        )

    def stage(self, batches: memoryview, *, epoch_max: int = INT32_MAX) -> Staged | None:
        """Prepare large fetched batches for a thread to write; see `following`."""
        return stage(self, batches, epoch_max=epoch_max)

    def append_staged(self, staged: Staged, *, wall_ms: int) -> Appended:
        """Append staged batches; see `following`."""
        return append_staged(self, staged, wall_ms=wall_ms)

    def append_as_is(
        self,
        batch: memoryview,
        header: BatchHeader,
        base_offset: int,
        leader_epoch: int,
        timestamp: int,
        wall_ms: int,
    ) -> None:
        """Roll if necessary, write the batch unchanged, then update the state of the log.

        Offset, epoch and timestamp are those in the bytes; `header` may predate them.
        Raises: DiskFull, LogDirFailed; the log is then unchanged.
        """
        config = self.config
        size_bytes = len(batch)
        offset_last = base_offset + header.last_offset_delta
        segment = self.segments.active
        if not segment.prepared:
            segment.prepare(wall_ms, config)
        if segment.must_roll(size_bytes, offset_last, timestamp, wall_ms, config):
            segment = self._roll_for(base_offset, offset_last, wall_ms)
        is_control = header.attributes & CONTROL
        aborted = self.producers.aborted_by(header, batch, base_offset) if is_control else None
        if aborted is not None:
            segment.note_aborted(aborted, self.producers)
        try:
            segment.append(batch, offset_last, timestamp, wall_ms, config)
        except LogDirFailed:
            if aborted is not None:
                segment.txn_index.truncate(base_offset)
            raise
        self.log_end_offset = offset_last + 1
        self.flushing.unflushed_bytes += size_bytes
        if header.producer_id >= 0:
            self.producers.note(header, batch, base_offset, timestamp)
        if leader_epoch != self.epochs.latest:
            with contextlib.suppress(DiskFull):  # loading finds the epoch in the batches
                self.epochs.assign(leader_epoch, base_offset)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch at the log end offset, even if no record follows.

        Raises: DiskFull, LogDirFailed; the log is then unchanged.
        """
        if leader_epoch > self.epochs.latest:
            self.epochs.begin(leader_epoch, self.log_end_offset)

    def roll(self, base_offset: int, wall_ms: int) -> Segment:
        """Finish the active segment and begin a new one.  Raises: DiskFull, LogDirFailed."""
        old = self.segments.active
        if old.base_offset == base_offset:
            return old
        only_empty = old.size_bytes == 0 and len(self.segments) == 1
        if not only_empty:
            old.finish()
            self.flushing.snapshot(self)
        new = create_segment(self.files, self.directory, base_offset)
        new.prepare(wall_ms, self.config)
        if only_empty:
            self.flushing.directory_unsynced = True
            self._discard(self.segments.replace_all(new))
        else:
            self.flushing.rolled(old)
            self.segments.add(new)
        return new

    def _roll_for(self, base_offset: int, offset_last: int, wall_ms: int) -> Segment:
        """Roll for a batch that compaction may have left a gap before.

        The segment begins at the log end offset if the batch fits into its offset range: the append
        may fail on a full disk, and the next batch may come from a leader without the gap.

        Raises: DiskFull, LogDirFailed.
        """
        is_near = offset_last - self.log_end_offset <= INT32_MAX
        return self.roll(self.log_end_offset if is_near else base_offset, wall_ms)

    # -- reading

    def read(
        self, offset: int, *, size_bytes_max: int, offset_end: int, at_least_one: bool = True
    ) -> Span | None:
        """Whole batches from the one with `offset` on, below `offset_end`, within the byte limit.

        `at_least_one`: return the first batch even if it alone exceeds the limit. None: nothing to
        read (yet). The caller must release the span.
        Raises: OffsetOutOfRange, CorruptLog, LogDirFailed.
        """
        log_end_offset = self.log_end_offset
        if offset > log_end_offset or offset < self.log_start_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, log_end_offset)
        if offset >= log_end_offset or offset >= offset_end:
            return None
        return self.reader.read(
            offset,
            offset_end,
            log_end_offset=log_end_offset,
            size_bytes_max=size_bytes_max,
            at_least_one=at_least_one,
        )

    def offset_past_damage(self, offset: int) -> int:
        """Where reading may go on if it fails at `offset`: after the damage, or the segment."""
        segment = self.segments.floor(offset)
        for damage in segment.damaged:
            if damage.offset_first <= offset < damage.offset_end:
                return damage.offset_end
        following = self.segments.next_base_offset(segment)
        return self.log_end_offset if following is None else following

    def aborted_transactions(self, offset: int, offset_end: int) -> list[AbortedTransaction]:
        """The aborted transactions whose records in [offset, offset_end) READ_COMMITTED omits.

        Raises: CorruptLog, LogDirFailed.
        """
        return self.reader.aborted_transactions(offset, offset_end)

    def offset_for_timestamp(
        self, timestamp: int, *, offset_first: int = 0, leave_long: bool = False
    ) -> TimestampOffset | None:
        """The first record at or after `offset_first` with a timestamp >= `timestamp`.

        Reads and decompresses one batch.  Raises: CorruptLog, MalformedMessage, LogDirFailed; with
        `leave_long` LongSearch.
        """
        return offset_for_timestamp(
            self.segments,
            timestamp,
            log_start_offset=max(self.log_start_offset, offset_first),
            record_bytes_max=self.config.record_bytes_max,
            leave_long=leave_long,
        )

    def max_timestamp_offset(self, *, leave_long: bool = False) -> TimestampOffset | None:
        """The first record with the greatest timestamp.  Raises: as `offset_for_timestamp`."""
        return max_timestamp_offset(
            self.segments,
            record_bytes_max=self.config.record_bytes_max,
            leave_long=leave_long,
        )

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch <= `leader_epoch`, or (-1, -1)."""
        return self.epochs.end_offset(leader_epoch, self.log_end_offset)

    # -- cutting

    def advance_log_start(self, offset: int) -> None:
        """Hide the records before `offset`; retention removes their segments later.

        Raises: OffsetOutOfRange (above the high watermark).
        """
        if offset > self._high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, self._high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset, write=False)

    def truncate(self, offset: int, *, keeps_epochs: bool = False) -> int:
        """Remove the batch with `offset` and everything after it; return the new log end offset.

        `keeps_epochs`: the leader stays, and so do the epochs; none may begin beyond the new end.

        A batch is removed as a whole, so the new end may lie below `offset`. Before the next append
        the caller must write a checkpoint, since the recovery point on disk may lie beyond the new
        end. If other batches will take the place of the removed ones, it must run a `flush_plan`
        first.
        Raises: CorruptLog (the log is then unchanged), DiskFull (the log is then truncated, but
        leader-epoch-checkpoint is not written), LogDirFailed.
        """
        if offset >= self.log_end_offset:
            # An epoch without records may begin there, and another leader may have a different one.
            if not keeps_epochs:
                self.epochs.truncate_end(self.log_end_offset)
            return self.log_end_offset
        if offset < self.segments.first_offset:
            return self.restart_at(offset)
        segment = self.segments.floor(offset)
        found = segment.find(offset)  # may fail, so it comes before any change
        if found is None:  # a gap after the segment's last batch: the log ends at that batch
            offset = _end_of(segment)
        self.reader.forget()
        gone = self.segments.cut_after(segment)
        self._discard(gone)
        if found is not None:
            offset = min(offset, found[0])
            segment.truncate(found[1], offset)
        self._ends_at(offset, gone)
        self.log_start_offset = min(self.log_start_offset, offset)  # it may be inside the batch
        names = self.files.list_names(self.directory)
        known = self.producers.transactions
        self.producers = rebuild_producers(self.files, self.directory, self.segments, offset, names)
        self.producers.transactions.take_unreplicated(known, offset)
        if not keeps_epochs:
            self.epochs.truncate_end(offset)  # last, since a full disk fails it
        return offset

    def restart_at(self, offset: int) -> int:
        """Remove everything; the log is then empty and begins at `offset`.

        Raises: DiskFull (either the log is unchanged, or only leader-epoch-checkpoint is not
        written), LogDirFailed.
        """
        first = self.segments.floor(offset)
        if first.base_offset == offset:
            first.truncate(0, offset)
        else:
            first = create_segment(self.files, self.directory, offset)
        self.reader.forget()
        gone = self.segments.replace_all(first)
        self._discard([segment for segment in gone if segment is not first])
        self.log_start_offset = self._high_watermark = offset
        self._ends_at(offset, gone)
        names = self.files.list_names(self.directory)
        remove_snapshots_above(self.files, self.directory, names, -1)
        self.producers = ProducerState()
        self.epochs.truncate_end(0)
        return offset

    def cut_start(self, offset: int) -> list[Segment]:
        """Remove and return the segments that end at or before both `offset` and the log start.

        The active segment always stays.  Spans being sent keep their file, even if it is renamed.
        """
        gone = self.segments.cut_before(min(offset, self.log_start_offset))
        if gone:
            self.reader.forget()
            self.flushing.start_cut(gone)
            for segment in gone:
                segment.close()
        return gone

    def _discard(self, segments: list[Segment]) -> None:
        """Unlink segments; spans being sent are dropped, but keep their file."""
        for segment in segments:
            drop_spans(segment.file, 0)
            segment.close()
            for path in segment.paths():
                self.files.unlink(path)

    def _ends_at(self, offset: int, gone: list[Segment]) -> None:
        """Set the log end offset after a truncation; `gone` are the removed segments."""
        self.log_end_offset = offset
        self._high_watermark = min(self._high_watermark, offset)
        if self.cleaner_offset is not None:
            self.cleaner_offset = min(self.cleaner_offset, self.segments.active.base_offset)
        self.generation += 1
        self.flushing.truncated(offset, gone)

    # -- safe on disk

    def flush_plan(self) -> FlushPlan | None:
        """The fsyncs that make everything appended so far safe; None if it already is.

        Call `plan.run()` in any thread, then `flushed(plan)` here. If `run` raised, call
        `plan.release()` and take the log directory offline.  Raises: DiskFull, LogDirFailed.
        """
        return self.flushing.plan(self)

    def flushed(self, plan: FlushPlan) -> None:
        """Move the recovery point, after the plan ran without an error."""
        self.flushing.done(plan)

    def close(self) -> None:
        """Bring the files to their final form, fsync everything, and close the files.

        Raises: DiskFull, LogDirFailed.
        """
        plan = self.flushing.final_plan(self)
        if plan is not None:
            try:
                plan.run()
            except LogDirFailed:
                plan.release()
                raise
            self.flushed(plan)
        self.abandon()

    def abandon(self) -> None:
        """Close the files without writing anything, like a crash."""
        for segment in self.segments:
            segment.close()

    def write_topic_id(self, topic_id: bytes) -> None:
        """Rewrite partition.metadata, unsynced (`id_plan`).  Raises: DiskFull, LogDirFailed."""
        path = f"{self.directory}/{PARTITION_METADATA}"
        self.files.write_atomic(path, render_partition_metadata(topic_id), sync=False)
        self.flushing.id_unsynced = True
        self.topic_id = topic_id

    def delete(self, uuid: bytes) -> DeletePlan:
        """Rename the directory to its `-delete` name; the plan unlinks it.

        `uuid`: 16 random bytes. Open spans stay readable until they are released.
        Raises: DiskFull, LogDirFailed; the log is then unchanged.
        """
        return DeletePlan(self.files, self.move_away(uuid, DELETED_SUFFIX))

    def move_away(self, uuid: bytes, suffix: str) -> str:
        """Rename the directory and close the files; return its new path.

        Raises: DiskFull, LogDirFailed; the log is then unchanged.
        """
        ending = f"-{self.partition}.{uuid.hex()}{suffix}"
        parent = self.directory.rpartition("/")[0]
        directory = f"{parent}/{self.topic[: DIRECTORY_NAME_MAX - len(ending)]}{ending}"
        self.files.rename(self.directory, directory)
        self.abandon()
        return directory


def _end_of(segment: Segment) -> int:
    entry = segment.offset_index.last()
    end = segment.base_offset
    for _, header in walk_headers(segment.file, entry.position if entry else 0, segment.size_bytes):
        end = header.next_offset
    return end
