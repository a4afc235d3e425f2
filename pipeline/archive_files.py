"""Compacts an archive: merges its many small files into few large ones.

Each folder is rewritten by a commit of its own, which is atomic. Readers of the manifest see each
record once at any time, or fail because a file is gone. Readers of plain Parquet may see a folder's
records twice while it is swapped, and after a kill in between until the next start rolls the swap
forward: compact when there are no such readers.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .archive_commits import ArchiveWriter
from .archive_writing import staged_files
from .errors import PipelineError
from .manifest import About, ArchivedFile, Commit, schema
from .spark_types import SparkSession
from .status_line import StatusLine, time_left

TARGET_BYTES: Final = 128 * 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    files_before: int = 0
    files_after: int = 0


def groups(commits: Sequence[Commit], target_bytes: int) -> dict[str, list[list[ArchivedFile]]]:
    """By folder, the groups of files to merge: in commit order, at most `target_bytes` each."""
    folders: dict[str, list[list[ArchivedFile]]] = {}
    for commit in commits:
        for file in commit.files:
            if file.size_bytes >= target_bytes:
                continue
            bins = folders.setdefault(file.path.rpartition("/")[0], [[]])
            if sum(other.size_bytes for other in bins[-1]) + file.size_bytes > target_bytes:
                bins.append([])
            bins[-1].append(file)
    worthwhile = {
        folder: [group for group in bins if len(group) > 1] for folder, bins in folders.items()
    }
    return {folder: bins for folder, bins in sorted(worthwhile.items()) if bins}


def compact(
    spark: SparkSession, writer: ArchiveWriter, about: About, target_bytes: int
) -> Compacted:
    """Rewrite small files, folder by folder.  Raises: PipelineError."""
    folders = groups(writer.commits, target_bytes)
    size_bytes = sum(_size_bytes(bins) for bins in folders.values())
    before = after = done_bytes = 0
    began_s = time.monotonic()
    with StatusLine() as line:
        for number, (folder, bins) in enumerate(folders.items(), 1):
            left = time_left(done_bytes / max(1, size_bytes), time.monotonic() - began_s)
            line.show(f"compaction: folder {number} of {len(folders)}{left}, {folder}")
            new = _rewrite(spark, writer, about, folder, bins)
            old = sum(map(len, bins))
            logger.info("compacted folder=%s files=%d into=%d", folder, old, new)
            before += old
            after += new
            done_bytes += _size_bytes(bins)
        if before:
            writer.write_snapshot()
    return Compacted(before, after)


def _size_bytes(bins: Sequence[Sequence[ArchivedFile]]) -> int:
    return sum(file.size_bytes for group in bins for file in group)


def _rewrite(
    spark: SparkSession,
    writer: ArchiveWriter,
    about: About,
    folder: str,
    bins: Sequence[Sequence[ArchivedFile]],
) -> int:
    """Merge the groups of one folder; returns the number of new files.  Raises: PipelineError."""
    staging = writer.stage()
    target = writer.files.absolute(f"{staging}/{folder}")
    order = [name for name in ("partition", "offset") if name not in about.partition_by]
    for group in bins:
        paths = [writer.files.absolute(file.path) for file in group]
        rows = spark.read.schema(schema(without=about.partition_by)).parquet(*paths)
        rows.coalesce(1).sortWithinPartitions(*order).write.mode("append").parquet(target)
    staged = staged_files(spark, writer.files, staging, None)
    expected = sum(file.records for group in bins for file in group)
    if sum(file.records for file in staged) != expected:
        raise PipelineError(
            f"{writer.files.absolute(folder)} holds {sum(file.records for file in staged)} records "
            f"where its commits say {expected}: its files were changed, and were left as they are"
        )
    writer.commit(staging, staged, removed=[file.path for group in bins for file in group])
    return len(staged)
