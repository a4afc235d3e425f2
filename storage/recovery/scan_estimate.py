"""Estimates how much of a partition recovery will scan, from file names, sizes and one index."""

import re
from typing import Final

from ..errors import LogDirFailed
from ..files import FileSystem
from ..log.index import OffsetIndex
from ..log.segment import INDEX_SUFFIX, LOG_SUFFIX

_LOG_NAME: Final = re.compile(r"([0-9]{20})\.log")


def bytes_to_scan(files: FileSystem, directory: str, recovery_point: int) -> int:
    """Bytes of batches above the recovery point, rather too many than too few.

    0 if the directory can't be read: loading will report why.
    """
    try:
        sizes = {info.name: info.size_bytes for info in files.list_directory(directory)}
        bases = sorted(int(match[1]) for name in sizes if (match := _LOG_NAME.fullmatch(name)))
        later = [base for base in bases if base > recovery_point]
        total = sum(sizes[f"{base:020d}{LOG_SUFFIX}"] for base in later)
        if len(later) < len(bases):
            base = bases[-len(later) - 1]
            size_bytes = sizes[f"{base:020d}{LOG_SUFFIX}"]
            total += size_bytes - _position(files, directory, base, recovery_point, sizes)
    except LogDirFailed:
        return 0
    return total


def _position(
    files: FileSystem, directory: str, base: int, recovery_point: int, sizes: dict[str, int]
) -> int:
    """The position of the recovery point in its segment, rounded down to an index entry."""
    name = f"{base:020d}{INDEX_SUFFIX}"
    whole_bytes = sizes.get(name, 0) // OffsetIndex.ENTRY.size * OffsetIndex.ENTRY.size
    index = OffsetIndex(files, f"{directory}/{name}", base, whole_bytes)
    try:
        entry = index.floor_offset(recovery_point - 1)
    finally:
        index.file.close()
    within = entry is not None and 0 <= entry.position < sizes[f"{base:020d}{LOG_SUFFIX}"]
    return entry.position if entry is not None and within else 0
