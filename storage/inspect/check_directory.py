"""Checks a data directory: its own files, and each partition with `check_partition.py`.

Without the clean-shutdown marker the last shutdown was unclean. Segments at and above the recovery
point may then have torn tails, padded or missing indexes and outdated side files. None of that is
damage, since the next start recovers it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ..directory.meta_properties import META_PROPERTIES, read_meta_properties
from ..errors import DataDirError, LogDirFailed
from ..files import FileSystem
from ..log.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    TopicPartition,
    parse_offsets,
)
from ..log.segment import LOG_SUFFIX
from .check_partition import PartitionCheck, PartitionReport
from .context import Context
from .findings import Advance, Finding, Grade, Report

CHECKPOINTS: Final = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)
LOCK: Final = ".lock"
_KNOWN: Final = frozenset({*CHECKPOINTS, META_PROPERTIES, CLEAN_SHUTDOWN, LOCK})
# The embedded store (SQLite with its log), the boot note, the state of the scrubber, and files
# set aside by a repair.
_OWN: Final = re.compile(
    r"\.odradek-store\.sqlite3.*|\.odradek_boot_id|\.odradek-scrub|.*\.damaged"
)
_PARTITION: Final = re.compile(r"(.+)-([0-9]+)")
_SET_ASIDE: Final = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)")


@dataclass(slots=True)
class DirectoryReport:
    """What a data directory contains; details are in its partitions."""

    path: str
    clean: bool = False
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """The checkpoints that can be read, by name."""
    bad_checkpoints: set[str] = field(default_factory=set)
    partitions: dict[TopicPartition, PartitionReport] = field(default_factory=dict)

    def context(self, key: TopicPartition, wanted: Context) -> Context:
        """`wanted`, with what the directory's files say about one partition."""
        return replace(
            wanted,
            clean=self.clean and not wanted.running,
            recovery_point=self.offsets.get(RECOVERY_POINT, {}).get(key, 0),
            high_watermark=self.offsets.get(HIGH_WATERMARK, {}).get(key),
            log_start_offset=self.offsets.get(LOG_START, {}).get(key),
            cleaner_offset=self.offsets.get(CLEANER, {}).get(key),
        )


def is_data_directory(files: FileSystem, path: str) -> bool:
    """Whether a directory is one of a broker's `log.dirs`, and not a partition."""
    names = {info.name for info in files.list_directory(path)}
    return bool(names & {META_PROPERTIES, *CHECKPOINTS}) or not any(
        name.endswith(LOG_SUFFIX) for name in names
    )


def partition_of(name: str) -> TopicPartition | None:
    """Topic and partition from a directory's name; None: not a partition, or set aside."""
    match = None if _SET_ASIDE.fullmatch(name) else _PARTITION.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def log_size_bytes(files: FileSystem, path: str) -> int:
    """The number of segment bytes to check, for a progress bar.  Raises: LogDirFailed."""
    if not is_data_directory(files, path):
        return _segment_bytes(files, path)
    names = (info.name for info in files.list_directory(path) if info.is_directory)
    return sum(_segment_bytes(files, f"{path}/{name}") for name in names if partition_of(name))


def _segment_bytes(files: FileSystem, path: str) -> int:
    infos = files.list_directory(path)
    return sum(info.size_bytes for info in infos if info.name.endswith(LOG_SUFFIX))


def read_directory(files: FileSystem, path: str, report: Report) -> DirectoryReport:
    """Read the marker and the checkpoints.  Raises: LogDirFailed."""
    result = DirectoryReport(path, clean=files.exists(f"{path}/{CLEAN_SHUTDOWN}"))
    for name in CHECKPOINTS:
        data = files.read_bytes(f"{path}/{name}")
        if not data:
            continue
        try:
            result.offsets[name] = parse_offsets(data)
        except ValueError as error:
            result.bad_checkpoints.add(name)
            what = f"the checkpoint cannot be read: {error}"
            report(Finding(f"{path}/{name}", what, Grade.REPAIRABLE))
    return result


def check_directory(
    files: FileSystem, path: str, wanted: Context, report: Report, advance: Advance
) -> DirectoryReport:
    """Check a data directory and all of its partitions.  Raises: LogDirFailed."""
    result = read_directory(files, path, report)
    _check_owner(files, path, report)
    if not (result.clean or wanted.running):
        what = "the last stop was not a clean one (no marker): the next start recovers the logs"
        report(Finding(f"{path}/{CLEAN_SHUTDOWN}", what, Grade.UNCLEAN))
    for name, key in _partitions(files, path, report):
        directory = f"{path}/{name}"
        context = result.context(key, wanted)
        check = _check_unless_gone(files, directory, context, report, advance)
        if check is not None:
            result.partitions[key] = check
    for name, offsets in result.offsets.items():
        for topic, partition in sorted(offsets.keys() - result.partitions.keys()):
            what = f"{topic}-{partition} is named, but not there"
            report(Finding(f"{path}/{name}", what, Grade.HARMLESS))
    return result


def check_partition(
    files: FileSystem, path: str, wanted: Context, report: Report, advance: Advance
) -> PartitionReport:
    """Check one partition, using the checkpoints of its data directory.  Raises: LogDirFailed."""
    parent, _, name = path.rpartition("/")
    key = partition_of(name)
    context = wanted
    if key is not None and files.exists(f"{parent}/{META_PROPERTIES}"):
        context = read_directory(files, parent, report).context(key, wanted)
    return PartitionCheck(files, path, context, report, advance).run()


def _check_unless_gone(
    files: FileSystem, directory: str, context: Context, report: Report, advance: Advance
) -> PartitionReport | None:
    """Check a partition; if a running broker removes a file meanwhile, check it again.

    None: the whole directory is gone.
    """
    try:
        return PartitionCheck(files, directory, context, report, advance).run()
    except LogDirFailed as error:
        if not (context.running and isinstance(error.__cause__, FileNotFoundError)):
            raise
    if not files.exists(directory):
        return None
    return PartitionCheck(files, directory, context, report, advance).run()


def _partitions(
    files: FileSystem, path: str, report: Report
) -> Iterator[tuple[str, TopicPartition]]:
    """Yield the partition directories; report everything else that does not belong there."""
    for info in sorted(files.list_directory(path)):
        key = partition_of(info.name) if info.is_directory else None
        place = f"{path}/{info.name}"
        if key is not None:
            yield info.name, key
        elif info.is_directory:
            match = _SET_ASIDE.fullmatch(info.name)
            what = f"a directory set aside ({match[1]})" if match else "a directory of no partition"
            report(Finding(place, f"{what}, not looked into", Grade.HARMLESS))
        elif info.name.endswith(".tmp"):
            what = "left by a write that was not finished"
            report(Finding(place, what, Grade.HARMLESS))
        elif not (info.name in _KNOWN or _OWN.fullmatch(info.name)):
            report(Finding(place, "a file that does not belong here", Grade.HARMLESS))


def _check_owner(files: FileSystem, path: str, report: Report) -> None:
    try:
        owner = read_meta_properties(files, f"{path}/{META_PROPERTIES}")
    except DataDirError as error:
        report(Finding(f"{path}/{META_PROPERTIES}", str(error), Grade.LOST))
        return
    if owner is None:
        what = "the file is missing: the next broker that starts here claims the directory"
        report(Finding(f"{path}/{META_PROPERTIES}", what, Grade.HARMLESS))
