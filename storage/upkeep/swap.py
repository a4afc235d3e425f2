"""Replaces old segments with compacted ones, crash-safely.

The job (storage/jobs/clean.py) has left synced files that end in `.cleaned`. Each new segment goes
through these steps. The directory is synced after each one; within a step, a crash may leave any
subset of the renames:

1. `.cleaned` becomes `.swap`. While any `.cleaned` is left, loading drops both.
2. The old segments' files become `.deleted`, and the log reads the `.swap` files from then on.
   Loading finds a whole `.swap` segment and removes the segments that it replaces.
3. `.swap` becomes the final name. Loading does the remaining renames.

Loading calls `complete_swaps`, which follows the rules of Kafka's LogLoader, so that either broker
completes what the other began. The offsets in a `.swap` segment tell which segments it replaces: an
old segment after its last record may stay. That is harmless, since the dirty part of the log counts
as clean only after all swaps.  Source: LocalLog.replaceSegments, LogLoader.load.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.protocol.records import BatchHeader

from ..errors import CorruptLog, LogDirFailed
from ..files import FileInfo, FileSystem
from ..log.log_file import LogFile
from ..log.producer_snapshot import snapshot_path
from ..log.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, TXN_INDEX_SUFFIX, Segment
from ..log.segment_scan import ScanStart, scan_segment
from ..log.txn_index import decode_aborted, encode_aborted

if TYPE_CHECKING:
    from ..log.log import Log

logger: Final = logging.getLogger("odradek.storage")

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_SUFFIX: Final = ".deleted"
_BASE_OFFSET: Final = re.compile(r"([0-9]{20})\.")


# -- while the log is served


class Swap:
    """Replaces old segments with one new segment, in steps.

    Call `begin`, `switch`, `retire`, `settle`, `sync`, in this order. `switch` and `settle` must
    run on the event loop; the others only make system calls and may run in any thread. If
    `can_switch` is false after `begin`, because the log has changed, call `undo` instead.
    """

    __slots__ = (
        "_base_offset",
        "_infos",
        "_log",
        "_new",
        "_old_paths",
        "_replaces",
        "deleted_paths",
    )

    def __init__(self, log: "Log", base_offset: int, replaces: Sequence[int]) -> None:
        """`replaces`: the base offsets of the old segments."""
        self._log = log
        self._base_offset = base_offset
        self._replaces = frozenset(replaces)
        self._infos: list[FileInfo] = []
        self._new: Segment | None = None
        self._old_paths: list[str] = []
        self.deleted_paths: list[str] = []
        """The files to unlink after `retire`."""

    def can_switch(self) -> bool:
        """Whether all old segments are still in the log."""
        return self._replaces <= {segment.base_offset for segment in self._log.segments}

    def begin(self) -> None:
        """Rename the new files to `.swap`, so that they survive a crash.

        Raises: DiskFull, LogDirFailed; then the new files are removed, if possible.
        """
        try:
            self._begin()
        except LogDirFailed:
            with contextlib.suppress(LogDirFailed):
                self.undo()
            raise

    def _begin(self) -> None:
        files, directory = self._log.files, self._log.directory
        stem = f"{self._base_offset:020d}."
        for info in files.list_directory(directory):
            if info.name.startswith(stem) and info.name.endswith(CLEANED_SUFFIX):
                name = info.name.removesuffix(CLEANED_SUFFIX)
                self._infos.append(info._replace(name=name))
                files.rename(f"{directory}/{info.name}", f"{directory}/{name}{SWAP_SUFFIX}")
        self.sync()

    def undo(self) -> None:
        """Remove the new files.  Raises: LogDirFailed."""
        for info in self._infos:
            self._log.files.unlink(f"{self._log.directory}/{info.name}{SWAP_SUFFIX}")
        self.sync()

    def switch(self) -> None:
        """Make the log read from the new segment; spans being sent keep the old files."""
        log = self._log
        old = [segment for segment in log.segments if segment.base_offset in self._replaces]
        sizes = {info.name: info.size_bytes for info in self._infos}
        new = Segment(log.files, log.directory, self._base_offset, sizes)
        for file in _files_of(new):
            if file.path.rpartition("/")[2] in sizes:
                file.path += SWAP_SUFFIX
        log.segments.replace(old, new)
        log.reader.forget()
        log.flushing.replaced(old)
        self._new = new
        for segment in old:
            self._old_paths += [file.path for file in segment.all_files()]
            segment.close()
        self._outdate_snapshots(old)

    def _outdate_snapshots(self, old: Sequence[Segment]) -> None:
        """Delete the old segments' producer snapshots too, if recovery is sure to use a newer one.

        A segment with the new base offset keeps its snapshot.
        """
        log = self._log
        new = log.segments.floor(old[-1].base_offset)
        if log.recovery_point >= (log.segments.next_base_offset(new) or sys.maxsize):
            self.deleted_paths += [
                snapshot_path(log.directory, segment.base_offset)
                for segment in old
                if segment.base_offset != self._base_offset
            ]

    def retire(self) -> None:
        """Rename the old files to `.deleted`.  May be called again after a failure.

        Raises: DiskFull, LogDirFailed.
        """
        while self._old_paths:
            path = self._old_paths[-1]
            self._log.files.rename(path, path + DELETED_SUFFIX)
            self.deleted_paths.append(self._old_paths.pop() + DELETED_SUFFIX)
        self.sync()

    def settle(self) -> None:
        """Give the files their final names, unless the log no longer has the new segment.

        May be called again after a failure.  Raises: DiskFull, LogDirFailed.
        """
        new = self._new
        assert new is not None
        if all(segment is not new for segment in self._log.segments):
            return
        for file in _files_of(new):
            if file.path.endswith(SWAP_SUFFIX):
                path = file.path.removesuffix(SWAP_SUFFIX)
                self._log.files.rename(file.path, path)
                file.path = path

    def sync(self) -> None:
        """fsync of the directory.  Raises: LogDirFailed."""
        self._log.files.sync_path(self._log.directory)


def remove_cleaned(files: FileSystem, directory: str) -> None:
    """Remove the files of a failed cleaning; in any thread.  Raises: LogDirFailed."""
    for info in files.list_directory(directory):
        if info.name.endswith(CLEANED_SUFFIX):
            files.unlink(f"{directory}/{info.name}")


def _files_of(segment: Segment) -> tuple[LogFile, ...]:
    indexes = segment.offset_index.file, segment.time_index.file, segment.txn_index.file
    return segment.file, *indexes


# -- when the log is loaded


def complete_swaps(files: FileSystem, directory: str, infos: dict[str, FileInfo]) -> None:
    """Complete compactions that a crash interrupted if all new files are there, else undo them.

    Updates `infos`, the listing of the directory.
    Raises: CorruptLog, UnsupportedFormat, LogDirFailed.
    """
    leftovers = _Leftovers(files, directory, infos)
    cleaned, swapped = leftovers.ending(CLEANED_SUFFIX), leftovers.ending(SWAP_SUFFIX)
    if not (cleaned or swapped):
        return
    if cleaned:
        cleaned_min = min(map(_base_offset, cleaned))
        for name in [name for name in swapped if _base_offset(name) >= cleaned_min]:
            swapped.remove(name)
            leftovers.remove(name)
        files.sync_path(directory)  # a .swap without a .cleaned would count as complete
        for name in cleaned:
            leftovers.remove(name)
    leftovers.remove_replaced([name for name in swapped if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)])
    files.sync_path(directory)  # old and new segments must not overlap
    for name in swapped:
        logger.info("compaction completed path=%s/%s", directory, name)
        leftovers.rename(name, name.removesuffix(SWAP_SUFFIX))
    files.sync_path(directory)


class _Leftovers:
    """The files of one directory, as listed in `infos`."""

    def __init__(self, files: FileSystem, directory: str, infos: dict[str, FileInfo]) -> None:
        self._files = files
        self._directory = directory
        self._infos = infos

    def ending(self, suffix: str) -> list[str]:
        """The segment files with this suffix, sorted."""
        return sorted(n for n in self._infos if n.endswith(suffix) and _BASE_OFFSET.match(n))

    def remove(self, name: str) -> None:
        self._files.unlink(f"{self._directory}/{name}")
        del self._infos[name]

    def rename(self, name: str, new_name: str) -> None:
        self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{new_name}")
        self._infos[new_name] = self._infos.pop(name)._replace(name=new_name)

    def remove_replaced(self, new_logs: Sequence[str]) -> None:
        """Remove the old segment files whose base offset is in the range of a new segment."""
        ranges: list[range] = []
        kept = set()
        for name in new_logs:
            next_offset, markers = self._walk(name)
            ranges.append(range(_base_offset(name), next_offset))
            if self._keep_aborted(name, markers):
                kept.add(_txn_index_of(name))
        for name in (name for suffix in SEGMENT_SUFFIXES for name in self.ending(suffix)):
            if name not in kept and any(_base_offset(name) in offsets for offsets in ranges):
                self.remove(name)

    def _walk(self, name: str) -> tuple[int, set[int]]:
        """The next offset of a new segment, and the offsets of its control records."""
        markers: set[int] = set()

        def note(header: BatchHeader, _: memoryview) -> None:
            if header.is_control:
                markers.add(header.last_offset)

        file = self._files.open_log(f"{self._directory}/{name}", self._infos[name].size_bytes)
        try:
            # Verified, since the old segments will be removed.
            scan = scan_segment(
                file,
                _base_offset(name),
                ScanStart(),
                index_interval_bytes=file.size_bytes,
                on_producer_batch=note,
            )
        finally:
            file.close()
        if scan.problem is not None:
            raise CorruptLog(f"{file.path}: {scan.problem} at {scan.position_end}")
        return scan.next_offset, markers

    def _keep_aborted(self, name: str, markers: set[int]) -> bool:
        """Whether the new segment's transaction index already has its final name.

        A new segment without aborted transactions has none, so a file of that name may be the old
        one. Entries without a marker in the new segment are removed: they would hide later ones.
        """
        txn_index = _txn_index_of(name)
        if txn_index not in self._infos or txn_index + SWAP_SUFFIX in self._infos:
            return False
        path = f"{self._directory}/{txn_index}"
        try:
            entries = decode_aborted(self._files.read_bytes(path) or b"")
        except CorruptLog:
            return False
        data = b"".join(encode_aborted(e) for e in entries if e.last_offset in markers)
        if len(data) < self._infos[txn_index].size_bytes:
            self._files.write_atomic(path, data)
            self._infos[txn_index] = self._infos[txn_index]._replace(size_bytes=len(data))
        return True


def _base_offset(name: str) -> int:
    match = _BASE_OFFSET.match(name)
    assert match is not None
    return int(match[1])


def _txn_index_of(swapped_log: str) -> str:
    return swapped_log.removesuffix(LOG_SUFFIX + SWAP_SUFFIX) + TXN_INDEX_SUFFIX
