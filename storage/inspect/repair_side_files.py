"""Rebuilds the side files of a partition from its batches."""

from collections.abc import Collection

from odradek.protocol.records import BatchHeader

from ..files import FileSystem
from ..log.checkpoint import (
    LEADER_EPOCH,
    PARTITION_METADATA,
    render_epochs,
    render_partition_metadata,
)
from ..log.index import TIME_ENTRY
from ..log.log_config import LogConfig
from ..log.producer_snapshot import decode_snapshot, encode_snapshot, snapshot_path
from ..log.producer_state import ProducerState
from ..log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from ..log.segment_scan import ScanStart, SegmentScan, scan_segment
from ..log.txn_index import AbortedTransaction, encode_aborted
from .check_partition import PartitionReport
from .check_segment import SegmentReport
from .repair_segments import save_aside


def rebuild_from_batches(
    files: FileSystem,
    partition: PartitionReport,
    bad_indexes: dict[int, set[str]],
    snapshots: Collection[int],
) -> None:
    """Rebuild indexes (suffixes by base offset) and snapshots.  Raises: DiskFull, LogDirFailed."""
    replay = _Replay(files, partition, sorted(snapshots, reverse=True))
    all_needed = snapshots or any(TXN_INDEX_SUFFIX in bad for bad in bad_indexes.values())
    for segment in partition.segments:
        bad = bad_indexes.get(segment.base_offset, set())
        if bad or all_needed:
            scan, aborted = replay.run(segment)
            _write_indexes(files, segment, bad, scan, aborted)
    replay.finish()


def _write_indexes(
    files: FileSystem,
    segment: SegmentReport,
    bad: Collection[str],
    scan: SegmentScan,
    aborted: list[AbortedTransaction],
) -> None:
    if INDEX_SUFFIX in bad:
        files.write_atomic(segment.path(INDEX_SUFFIX), scan.offset_entries)
    if TIME_INDEX_SUFFIX in bad:
        files.write_atomic(
            segment.path(TIME_INDEX_SUFFIX), final_time_entries(scan, segment.base_offset)
        )
    if TXN_INDEX_SUFFIX in bad:
        if aborted:
            data = b"".join(encode_aborted(entry) for entry in aborted)
            files.write_atomic(segment.path(TXN_INDEX_SUFFIX), data)
        else:
            files.unlink(segment.path(TXN_INDEX_SUFFIX))


def final_time_entries(scan: SegmentScan, base_offset: int) -> bytes:
    """The time index of a complete segment: its last entry has the greatest timestamp."""
    entries = scan.time_entries
    indexed = TIME_ENTRY.unpack_from(entries, len(entries) - TIME_ENTRY.size)[0] if entries else -1
    if scan.max_timestamp > indexed:
        last = TIME_ENTRY.pack(scan.max_timestamp, scan.max_timestamp_offset - base_offset)
        return bytes(entries + last)
    return bytes(entries)


class _Replay:
    """Replays a partition's producer state, from its first batch on."""

    def __init__(self, files: FileSystem, partition: PartitionReport, wanted: list[int]) -> None:
        self._files = files
        self._directory = partition.directory
        self._wanted = wanted
        self._state = self._state_at(partition.log_start_offset)

    def _state_at(self, offset: int) -> ProducerState:
        try:
            path = snapshot_path(self._directory, offset)
            return decode_snapshot(self._files.read_bytes(path) or b"")
        except ValueError:
            return ProducerState()

    def run(self, segment: SegmentReport) -> tuple[SegmentScan, list[AbortedTransaction]]:
        """Scan one segment; segments must be passed in order."""
        aborted: list[AbortedTransaction] = []

        def note(header: BatchHeader, batch: memoryview) -> None:
            self._write_snapshots(header.base_offset)
            ended = self._state.note(header, batch, header.base_offset, header.max_timestamp)
            if ended is not None and ended.is_aborted:
                aborted.append(AbortedTransaction.of(ended, self._state))

        file = self._files.open_log(segment.path(), segment.size_bytes)
        try:
            scan = scan_segment(
                file,
                segment.base_offset,
                ScanStart(),
                index_interval_bytes=LogConfig().index_interval_bytes,
                on_producer_batch=note,
            )
        finally:
            file.close()
        return scan, aborted

    def _write_snapshots(self, offset: int) -> None:
        """Write the wanted snapshots up to `offset`; all batches before it were noted."""
        while self._wanted and self._wanted[-1] <= offset:
            path = snapshot_path(self._directory, self._wanted.pop())
            self._files.write_atomic(path, encode_snapshot(self._state))

    def finish(self) -> None:
        """Write the remaining snapshots at the end of the log."""
        while self._wanted:
            self._write_snapshots(self._wanted[-1])


def rebuild_epochs(files: FileSystem, partition: PartitionReport) -> None:
    """Write the epochs of the batches; set the old file aside.  Raises: DiskFull, LogDirFailed."""
    path = f"{partition.directory}/{LEADER_EPOCH}"
    old = files.read_bytes(path)
    if old:
        save_aside(files, path, old)
    files.write_atomic(path, render_epochs(partition.epochs))


def rebuild_metadata(files: FileSystem, directory: str, topic_id: bytes | None) -> None:
    """Write the topic id of the other partitions.  If unknown, remove the file: a broker writes it.

    The old file is set aside.  Raises: DiskFull, LogDirFailed.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    old = files.read_bytes(path)
    if old:
        save_aside(files, path, old)
    if topic_id is None:
        files.unlink(path)
    else:
        files.write_atomic(path, render_partition_metadata(topic_id))
