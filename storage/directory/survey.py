"""Read-only access to the contents of a data directory, without loading its logs.

For commands that run while no broker does.  Reading a segment ends at a torn or damaged batch.
"""

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.records import BatchHeader

from ..errors import CorruptLog
from ..files import FileInfo, FileSystem
from ..log.checkpoint import LEADER_EPOCH, PARTITION_METADATA, parse_epochs, read_topic_id
from ..log.producer_snapshot import decode_snapshot, snapshot_offsets, snapshot_path
from ..log.segment import LOG_SUFFIX
from ..log.walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")

NUMBER_DIGITS_MAX: Final = 10
UNKNOWN: Final = -1


class PartitionDirectory(NamedTuple):
    """One partition's directory."""

    topic: str
    partition: int
    path: str


def partition_directories(
    files: FileSystem, path: str
) -> tuple[list[PartitionDirectory], list[str]]:
    """The partitions of a data directory, sorted, and the names of other directories in it.

    Raises: LogDirFailed.
    """
    found, others = [], []
    for info in files.list_directory(path):
        topic, dash, number = info.name.rpartition("-")
        if not info.is_directory:
            continue
        if dash and topic and _is_number(number):
            found.append(PartitionDirectory(topic, int(number), f"{path}/{info.name}"))
        else:
            others.append(info.name)
    return sorted(found), sorted(others)


def topic_id_of(files: FileSystem, directory: str) -> bytes | None:
    """The topic id in partition.metadata, or None (with a warning if it is unreadable)."""
    return read_topic_id(files, f"{directory}/{PARTITION_METADATA}")


def last_leader_epoch(files: FileSystem, directory: str) -> int:
    """The last epoch in the leader-epoch checkpoint, or -1.  Raises: LogDirFailed."""
    path = f"{directory}/{LEADER_EPOCH}"
    data = files.read_bytes(path)
    if not data:
        return UNKNOWN
    try:
        entries = parse_epochs(data)
    except ValueError as error:
        logger.warning("leader epochs unreadable path=%s error=%s", path, error)
        return UNKNOWN
    return entries[-1][0] if entries else UNKNOWN


def last_producer_id(files: FileSystem, directory: str) -> int:
    """The highest producer id in the producer snapshots, or -1.  Raises: LogDirFailed."""
    highest = UNKNOWN
    for offset in snapshot_offsets(files.list_names(directory)):
        path = snapshot_path(directory, offset)
        try:
            producers = decode_snapshot(files.read_bytes(path) or b"").entries()
        except ValueError as error:
            logger.warning("producer snapshot unreadable path=%s error=%s", path, error)
            continue
        highest = max([highest, *(entry.producer_id for entry in producers)])
    return highest


def segment_files(files: FileSystem, directory: str) -> list[FileInfo]:
    """The `.log` files of the segments, by rising base offset.  Raises: LogDirFailed."""
    infos = files.list_directory(directory)
    return sorted(info for info in infos if info.name.endswith(LOG_SUFFIX))


def batch_headers(files: FileSystem, directory: str, info: FileInfo) -> Iterator[BatchHeader]:
    """The batch headers of one segment.  Raises: LogDirFailed."""
    for header, _ in _walk(files, directory, info, whole=False):
        yield header


def batches(files: FileSystem, directory: str) -> Iterator[tuple[BatchHeader, bytes]]:
    """All batches of a partition, in order.  Raises: LogDirFailed."""
    for info in segment_files(files, directory):
        yield from _walk(files, directory, info, whole=True)


def _walk(
    files: FileSystem, directory: str, info: FileInfo, *, whole: bool
) -> Iterator[tuple[BatchHeader, bytes]]:
    file = files.open_log(f"{directory}/{info.name}", info.size_bytes)
    try:
        for position, header in walk_headers(file, 0, info.size_bytes):
            yield header, bytes(file.pread(header.size_bytes, position)) if whole else b""
    except CorruptLog as error:
        logger.warning("segment ends with an invalid batch: %s", error)
    finally:
        file.rest()


def _is_number(text: str) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    return is_number and (text == "0" or not text.startswith("0"))
