"""Rewrites damaged segments: keeps the good batches, and sets the bytes between them aside.

A reader cannot pass a hole in a segment, so the batches after one become a segment of their own.
Offsets do not change; those of the hole are missing from then on. The order of steps: save and sync
the bytes to cut; write all new segments beside the old one (`.repair`) and sync them; rename them,
the last one first. If this is interrupted, the old segment still has all of its batches.
"""

from collections.abc import Iterator
from typing import Final

from ..files import FileSystem
from ..log.log_file import LogFile
from ..log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from .check_partition import DAMAGED_SUFFIX, UNFINISHED_REPAIR_SUFFIX
from .check_segment import SegmentReport

_CHUNK_BYTES: Final = 4 << 20
_LEADER_EPOCH_POSITION: Final = 12


def saved_name(first: int, end: int | None) -> str:
    """The name, without suffix, of the file for the bytes of a hole with these offsets."""
    return f"{first:020d}-{max(first, first if end is None else end):020d}"


def plan_lines(segment: SegmentReport, *, is_last: bool) -> Iterator[str]:
    """What `rewrite` would do, as text."""
    for hole in segment.holes:
        end = segment.offset_limit if hole.offset_end is None else hole.offset_end
        name = saved_name(hole.offset_first, end) + DAMAGED_SUFFIX
        size_bytes = hole.position_end - hole.position
        yield f"save {size_bytes} bytes at {hole.position} that are no batch in {name}"
    for position, offset in sorted(segment.base_offset_fixes.items()):
        yield f"write base offset {offset} into the batch at {position}"
    for position, epoch in sorted(segment.epoch_fixes.items()):
        yield f"write leader epoch {epoch} into the batch at {position}"
    if segment.holes:
        names = sorted(_new_segments(segment, is_last=is_last))
        kept = f"keep the batches in {', '.join(f'{n:020d}{LOG_SUFFIX}' for n in names)}"
        yield kept if names else f"remove {segment.base_offset:020d}{LOG_SUFFIX}, which is empty"


def rewrite(files: FileSystem, segment: SegmentReport, *, is_last: bool) -> list[int]:
    """Rewrite a segment; return the new base offsets.  Raises: DiskFull, LogDirFailed."""
    old = files.open_log(segment.path(), segment.size_bytes)
    try:
        for hole in segment.holes:
            end = segment.offset_limit if hole.offset_end is None else hole.offset_end
            _save(files, old, segment.directory, hole.position, hole.position_end,
                  saved_name(hole.offset_first, end))  # fmt: skip
        new = _new_segments(segment, is_last=is_last)
        for base_offset, (position, position_end) in new.items():
            path = _path(segment, base_offset) + UNFINISHED_REPAIR_SUFFIX
            _copy(files, old, path, position, position_end, _edits(segment))
    finally:
        old.close()
    files.sync_path(segment.directory)
    for base_offset in sorted(new, reverse=True):
        path = _path(segment, base_offset)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            files.unlink(path.removesuffix(LOG_SUFFIX) + suffix)
        files.rename(path + UNFINISHED_REPAIR_SUFFIX, path)
    if segment.base_offset not in new:
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            files.unlink(segment.path(suffix))
    files.sync_path(segment.directory)
    return sorted(new)


def save_aside(files: FileSystem, path: str, data: bytes) -> None:
    """Keep bytes in a file that neither Kafka nor Odradek loads.

    `path`: without the suffix.  Raises: DiskFull, LogDirFailed.
    """
    for number in range(1, 1000):
        place = f"{path}{'' if number == 1 else f'.{number}'}{DAMAGED_SUFFIX}"
        there = files.read_bytes(place)
        if there == data:
            return
        if there is None:
            files.write_atomic(place, data)
            return
    raise AssertionError(f"{path} has been set aside a thousand times")


def _new_segments(segment: SegmentReport, *, is_last: bool) -> dict[int, tuple[int, int]]:
    """Base offset of each new segment -> its range in the old file."""
    new = {
        (segment.base_offset if run.position == 0 else run.base_offset): (
            run.position, run.position_end
        )
        for run in segment.runs
    }  # fmt: skip
    if not new and is_last:
        new[segment.base_offset] = (0, 0)
    return new


def _path(segment: SegmentReport, base_offset: int) -> str:
    return f"{segment.directory}/{base_offset:020d}{LOG_SUFFIX}"


def _edits(segment: SegmentReport) -> list[tuple[int, bytes]]:
    """(position, new bytes) of each correction; no checksum covers them."""
    edits = [(at, offset.to_bytes(8, "big")) for at, offset in segment.base_offset_fixes.items()]
    edits += [
        (at + _LEADER_EPOCH_POSITION, epoch.to_bytes(4, "big", signed=True))
        for at, epoch in segment.epoch_fixes.items()
    ]
    return sorted(edits)


def _save(
    files: FileSystem, old: LogFile, directory: str, position: int, position_end: int, name: str
) -> None:
    """Save the bytes of a hole in a new file, even if an earlier attempt saved them."""
    number = 1
    place = f"{directory}/{name}{DAMAGED_SUFFIX}"
    while files.exists(place):
        number += 1
        place = f"{directory}/{name}.{number}{DAMAGED_SUFFIX}"
    _copy(files, old, place + UNFINISHED_REPAIR_SUFFIX, position, position_end, [])
    files.rename(place + UNFINISHED_REPAIR_SUFFIX, place)


def _copy(
    files: FileSystem,
    old: LogFile,
    path: str,
    position: int,
    position_end: int,
    edits: list[tuple[int, bytes]],
) -> None:
    """Copy a range of a file into a new one, with edits, and sync it."""
    files.create(path)
    new = files.open_log(path, 0)
    try:
        inside = [edit for edit in edits if position <= edit[0] < position_end]
        for at, data in [*inside, (position_end, b"")]:
            while position < at:
                chunk = old.pread(min(_CHUNK_BYTES, at - position), position)
                assert chunk, f"{old.path} has become shorter"
                new.append(chunk)
                position += len(chunk)
            new.append(data)
            position += len(data)
        new.sync()
    finally:
        new.close()
