"""Producer state from the newest snapshot and the batches after it."""

import logging
from collections.abc import Iterable
from typing import Final

from .errors import CorruptLog
from .files import FileInfo, FileSystem
from .producer_snapshot import newest_snapshot, snapshot_offsets, snapshot_path
from .producer_state import ProducerState
from .segment import Segment
from .segments import Segments
from .walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")


def rebuild_producers(
    files: FileSystem,
    directory: str,
    segments: Segments,
    log_end_offset: int,
    infos: Iterable[FileInfo],
) -> ProducerState:
    """The state at the log end; snapshots above it are removed.  Raises: LogDirFailed."""
    offsets = remove_snapshots_above(files, directory, infos, log_end_offset)
    newest = newest_snapshot(files, directory, offsets, offset_max=log_end_offset)
    offset, state = (0, ProducerState()) if newest is None else newest
    replay_producers(state, segments, offset, log_end_offset)
    return state


def remove_snapshots_above(
    files: FileSystem, directory: str, infos: Iterable[FileInfo], offset: int
) -> list[int]:
    """Remove the snapshots of a later log end; return the offsets of the others."""
    offsets = snapshot_offsets(infos)
    for above in [other for other in offsets if other > offset]:
        files.unlink(snapshot_path(directory, above))
        offsets.remove(above)
    return offsets


def replay_producers(
    state: ProducerState, segments: Segments, offset_first: int, offset_end: int
) -> None:
    """Bring `state` from `offset_first` to `offset_end` by the headers in between.

    What is corrupt below the recovery point is passed over: a start must not fail for it.
    Raises: LogDirFailed.
    """
    if offset_first >= offset_end:
        return
    for segment in segments.from_offset(offset_first):
        if segment.base_offset >= offset_end:
            return
        try:
            _replay_segment(state, segment, offset_first, offset_end)
        except CorruptLog as error:
            logger.warning("producers are incomplete: a bad batch was passed over error=%s", error)


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
    files: FileSystem, directory: str, segments: Segments, infos: Iterable[FileInfo]
) -> int:
    """Rebuild those that can't be read or name offsets of other segments; return how many.

    Raises: DiskFull, LogDirFailed.
    """
    rebuilt = 0
    for segment in segments:
        if segment.txn_index.is_empty:
            continue
        problem = _transaction_index_problem(segment, segments.next_base_offset(segment))
        if problem is None:
            continue
        logger.warning(
            "transaction index rebuilt path=%s problem=%s", segment.txn_index.file.path, problem
        )
        _rebuild_transaction_index(files, directory, segments, segment, infos)
        rebuilt += 1
    return rebuilt


def _transaction_index_problem(segment: Segment, offset_end: int | None) -> str | None:
    """What can be seen to be wrong: each entry must name an abort marker of the segment."""
    try:
        for entry in segment.txn_index.entries():
            if entry.last_offset < segment.base_offset or (
                offset_end is not None and entry.last_offset >= offset_end
            ):
                return f"offset {entry.last_offset} is of another segment"
            found = segment.find(entry.last_offset)
            if found is None:
                return f"offset {entry.last_offset} lies beyond the segment"
            for _, header in walk_headers(segment.file, found[1], segment.size_bytes):
                if not header.is_control or header.producer_id != entry.producer_id:
                    return f"there is no marker at offset {entry.last_offset}"
                break
    except CorruptLog as error:
        return str(error)
    return None


def _rebuild_transaction_index(
    files: FileSystem,
    directory: str,
    segments: Segments,
    segment: Segment,
    infos: Iterable[FileInfo],
) -> None:
    base_offset = segment.base_offset
    snapshots = snapshot_offsets(infos)
    newest = newest_snapshot(files, directory, snapshots, offset_max=base_offset)
    offset, state = (0, ProducerState()) if newest is None else newest
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
        logger.warning("a bad batch was passed over error=%s", error)
