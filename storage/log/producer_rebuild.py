"""Rebuilds producer state from a snapshot and the batches after it; checks transaction indexes."""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from odradek.protocol.records import MarkerType
from odradek.protocol.records.batch import ATTRIBUTES_POSITION, crc32c

from ..errors import CorruptLog
from ..files import FileSystem
from .producer_snapshot import newest_snapshot, snapshot_offsets, snapshot_path
from .producer_state import ProducerState, marker_of
from .segment import Segment
from .segments import Segments
from .walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")

LOOKED_AT_MAX: Final = 8  # producers of a snapshot that are compared with the log
NEARBY_BYTES: Final = (1 << 20, 1 << 24)
"""How far before the high watermark the beginnings of transactions are looked for, step by step."""


def rebuild_producers(
    files: FileSystem,
    directory: str,
    segments: Segments,
    log_end_offset: int,
    names: Iterable[str],
) -> ProducerState:
    """The state at the log end offset; snapshots above it are removed.  Raises: LogDirFailed."""
    offsets = remove_snapshots_above(files, directory, names, log_end_offset)
    offset, state = snapshot_of_log(files, directory, segments, offsets, offset_max=log_end_offset)
    replay_producers(state, segments, offset, log_end_offset)
    return state


def snapshot_of_log(
    files: FileSystem,
    directory: str,
    segments: Segments,
    offsets: list[int],
    *,
    offset_max: int,
) -> tuple[int, ProducerState]:
    """The newest snapshot of this log at or below `offset_max`; if there is none, an empty state.

    Snapshots that are unreadable or belong to another log are removed.  Raises: LogDirFailed.
    """
    while newest := newest_snapshot(files, directory, offsets, offset_max=offset_max):
        offset, state = newest
        problem = _snapshot_problem(state, offset, segments)
        if problem is None:
            return newest
        path = snapshot_path(directory, offset)
        logger.warning("producer snapshot of another log, removed path=%s: %s", path, problem)
        files.unlink(path)
        offsets.remove(offset)
    return 0, ProducerState()


def _snapshot_problem(state: ProducerState, offset: int, segments: Segments) -> str | None:
    """Why a snapshot can't belong to this log, if so; only some of its producers are checked."""
    for count, entry in enumerate(state.entries()):
        last = entry.batches[-1].last_offset if entry.batches else -1
        if max(last, entry.transaction_first_offset) >= offset:
            return f"producer {entry.producer_id} has offset {last} beyond it"
        if last < segments.first_offset or count >= LOOKED_AT_MAX:
            continue
        try:
            header = segments.header_at(last)
        except CorruptLog:
            continue
        if (
            header is not None
            and header.base_offset <= last
            and header.producer_id != entry.producer_id
            and _is_intact(segments, last)  # batches before the log start may not be
        ):
            return f"offset {last} is of producer {header.producer_id}, not {entry.producer_id}"
    return None


def _is_intact(segments: Segments, offset: int) -> bool:
    """Whether the checksum of the batch with `offset` is right.  Raises: LogDirFailed."""
    segment = segments.floor(offset)
    try:
        found = segment.find(offset)
        if found is None:
            return False
        for position, header in walk_headers(segment.file, found[1], segment.size_bytes):
            batch = segment.file.pread(header.size_bytes, position)
            return crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]) == header.crc
    except CorruptLog:
        pass
    return False


def remove_snapshots_above(
    files: FileSystem, directory: str, names: Iterable[str], offset: int
) -> list[int]:
    """Remove the snapshots above `offset`; return the offsets of the others."""
    offsets = snapshot_offsets(names)
    for above in [other for other in offsets if other > offset]:
        files.unlink(snapshot_path(directory, above))
        offsets.remove(above)
    return offsets


def replay_producers(
    state: ProducerState, segments: Segments, offset_first: int, offset_end: int
) -> None:
    """Bring `state` from `offset_first` to `offset_end` with the batches in between.

    After a corrupt batch the rest of its segment is skipped: corruption below the recovery point
    must not prevent a start.  Raises: LogDirFailed.
    """
    if offset_first >= offset_end:
        return
    for segment in segments.from_offset(offset_first):
        if segment.base_offset >= offset_end:
            return
        try:
            _replay_segment(state, segment, offset_first, offset_end)
        except CorruptLog as error:
            logger.warning("producer state is incomplete: a bad batch was skipped error=%s", error)


def find_unreplicated(
    files: FileSystem,
    directory: str,
    segments: Segments,
    state: ProducerState,
    *,
    high_watermark: int,
    log_end_offset: int,
) -> None:
    """Have `state` know the transactions whose markers the high watermark has not passed.

    A snapshot names only the open ones, so `state` lacks some if its snapshot lies above the high
    watermark. (Kafka lacks them: the last stable offset passes them, and may go back.)
    Raises: LogDirFailed.
    """
    offsets = snapshot_offsets(files.list_names(directory))
    is_known = not offsets or offsets[-1] <= high_watermark or high_watermark >= log_end_offset
    if is_known or not _with_markers(state):
        return
    replayed = _replay_nearby(segments, high_watermark, log_end_offset)
    if replayed is None:
        offset, replayed = snapshot_of_log(
            files, directory, segments, offsets, offset_max=high_watermark
        )
        replay_producers(replayed, segments, offset, log_end_offset)
    state.transactions.take_unreplicated(replayed.transactions, log_end_offset)


def _replay_nearby(
    segments: Segments, high_watermark: int, log_end_offset: int
) -> ProducerState | None:
    """The state from a little before the high watermark on, if that shows where all transactions
    began whose markers follow: their producers must have ended an earlier one there.

    Raises: LogDirFailed.
    """
    segment = segments.floor(high_watermark)
    try:
        found = segment.find(high_watermark)
        position = segment.size_bytes if found is None else found[1]
        for size_bytes in NEARBY_BYTES:
            if position <= size_bytes:
                return None
            _, start = segment.floor_boundary(0, position - size_bytes)
            state = ProducerState()
            replay_producers(state, segments, start, high_watermark)
            known = _with_markers(state)
            replay_producers(state, segments, high_watermark, log_end_offset)
            if _with_markers(state) == known:
                return state
    except CorruptLog:
        pass
    return None


def _with_markers(state: ProducerState) -> set[int]:
    """The producers of which the state knows a marker."""
    return {entry.producer_id for entry in state.entries() if entry.coordinator_epoch >= 0}


def _replay_segment(
    state: ProducerState, segment: Segment, offset_first: int, offset_end: int
) -> None:
    found = segment.find(offset_first)
    if found is None:
        return
    for position, header in walk_headers(segment.file, found[1], segment.size_bytes):
        if header.base_offset >= offset_end:
            return
        if header.producer_id >= 0 and header.base_offset >= offset_first:
            batch = segment.file.pread(header.size_bytes, position) if header.is_control else b""
            state.note(header, batch, header.base_offset, header.max_timestamp)


def check_transaction_indexes(
    files: FileSystem,
    directory: str,
    segments: Segments,
    names: Iterable[str],
    doubted: Collection[Segment],
) -> int:
    """Rebuild the transaction indexes that are wrong or in `doubted`; return how many.

    Raises: DiskFull, LogDirFailed.
    """
    rebuilt = 0
    for segment in segments:
        problem = transaction_index_problem(segment, segments)
        if segment in doubted:
            problem = "it was unreadable before the recovery"
        if problem is None:
            continue
        logger.warning(
            "transaction index rebuilt path=%s problem=%s", segment.txn_index.file.path, problem
        )
        _rebuild_transaction_index(files, directory, segments, segment, names)
        rebuilt += 1
    return rebuilt


def transaction_index_problem(segment: Segment, segments: Segments) -> str | None:
    """What is wrong with the index, if anything: entries must name a transaction and its marker."""
    if segment.txn_index.is_empty:
        return None
    offset_end = segments.next_base_offset(segment)
    stable_offset = -1
    try:
        for entry in segment.txn_index.entries():
            last_offset = entry.last_offset
            if last_offset < segment.base_offset or (
                offset_end is not None and last_offset >= offset_end
            ):
                return f"offset {last_offset} is of another segment"
            if not _is_abort_marker(segment, last_offset, entry.producer_id):
                return f"there is no abort marker of {entry.producer_id} at offset {last_offset}"
            if not stable_offset <= entry.last_stable_offset <= last_offset + 1:
                return f"the last stable offset {entry.last_stable_offset} is out of order"
            stable_offset = entry.last_stable_offset
            begins = [entry.first_offset]
            if stable_offset <= last_offset:
                begins.append(stable_offset)
            for offset in begins:
                if not _may_begin_transaction(segments, offset):
                    return f"no transaction begins at offset {offset}"
    except CorruptLog as error:
        return str(error)
    return None


def _is_abort_marker(segment: Segment, offset: int, producer_id: int) -> bool:
    found = segment.find(offset)
    if found is None or found[0] != offset:
        return False
    for position, header in walk_headers(segment.file, found[1], segment.size_bytes):
        if not header.is_control or header.producer_id != producer_id:
            return False
        marker = marker_of(segment.file.pread(header.size_bytes, position))
        return marker is not None and marker.type == MarkerType.ABORT
    return False


def _may_begin_transaction(segments: Segments, offset: int) -> bool:
    """Whether a transaction may begin here; compaction or retention may have removed its batch."""
    if offset < segments.first_offset:
        return offset >= 0
    header = segments.header_at(offset)
    if header is None or header.base_offset > offset:
        return header is not None
    return header.base_offset == offset and header.is_transactional and not header.is_control


def _rebuild_transaction_index(
    files: FileSystem,
    directory: str,
    segments: Segments,
    segment: Segment,
    names: Iterable[str],
) -> None:
    base_offset = segment.base_offset
    snapshots = snapshot_offsets(names)
    offset, state = snapshot_of_log(files, directory, segments, snapshots, offset_max=base_offset)
    replay_producers(state, segments, offset, base_offset)
    segment.txn_index.truncate(base_offset)
    try:
        for position, header in walk_headers(segment.file, 0, segment.size_bytes):
            if header.producer_id < 0:
                continue
            batch = segment.file.pread(header.size_bytes, position) if header.is_control else b""
            ended = state.note(header, batch, header.base_offset, header.max_timestamp)
            if ended is not None and ended.is_aborted:
                segment.note_aborted(ended, state)
    except CorruptLog as error:
        logger.warning("a bad batch was skipped error=%s", error)
