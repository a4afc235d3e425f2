"""The archive's state at the start of an audit, and what is wrong with its files."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from .archive_commits import OURS
from .audit_report import Note
from .errors import PipelineError, explainable, reason
from .files import Files
from .manifest import Archive, ArchivedFile, OffsetRange, merged, read_records
from .offsets import TopicPartition
from .spark_types import DataFrame, SparkSession

_UNREADABLE: Final = re.compile(
    r"(?:[Ee]ncountered error while reading file|Could not read footer for file:?"
    r"|Checksum error:)"  # of the .crc that Hadoop keeps beside a file
    r" *(?:FileStatus\{path=)?([^\s;,]+?)\.?(?=[\s;,]|$)"
)
NAMES_MAX: Final = 3
"""How many files or ranges a note names."""


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """What an archive held when the audit began."""

    files: Files
    isolation_level: str
    present: tuple[ArchivedFile, ...]
    """Committed files of the audited topics that exist."""
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    notes: tuple[Note, ...]

    def read(self, spark: SparkSession) -> DataFrame:
        """The records of the files that exist."""
        return read_records(spark, self.files, self.present)

    @contextmanager
    def readable(self) -> Iterator[None]:
        """If Spark cannot read a file in the block, name it.  Raises: PipelineError."""
        try:
            yield
        except explainable() as error:
            if found := _UNREADABLE.search(reason(error)) or _UNREADABLE.search(str(error)):
                raise PipelineError(
                    f"a file of the archive is damaged, {found[1]}: restore it from a backup, or"
                    " archive its offsets anew"
                ) from error
            raise

    def check_counts(self, counts: Mapping[str, int]) -> Iterator[Note]:
        """A note for each topic whose files do not hold as many records as the manifest says."""
        said: dict[str, int] = {}
        for file in self.present:
            said[file.topic] = said.get(file.topic, 0) + file.records
        for topic, count in sorted(said.items()):
            if count != counts.get(topic, 0):
                found = counts.get(topic, 0)
                yield Note(
                    f"the archive's manifest says {count:,} records of {topic}, its files hold"
                    f" {found:,}",
                    differs=True,
                )


def archive_state(files: Files, topics: Sequence[str], *, strict: bool) -> ArchiveState:
    """What an archive holds of some topics now.  Raises: PipelineError."""
    archive = Archive(files)
    commits = archive.commits()
    there = {status.path for status in files.list("", recursive=True)}
    committed = [file for commit in commits for file in commit.files]
    ours = [file for file in committed if file.topic in topics]
    ranges = sorted(asked for commit in commits for asked in commit.ranges if asked.topic in topics)
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for asked in ranges:
        key = asked.topic_partition
        starts[key] = min(asked.start_offset, starts.get(key, asked.start_offset))
        ends[key] = max(asked.end_offset, ends.get(key, 0))
    return ArchiveState(
        files,
        archive.isolation_level,
        tuple(file for file in ours if file.path in there),
        starts,
        ends,
        (
            *_lost(file.path for file in ours if file.path not in there),
            *_twice(ours),
            *_uncommitted(there - {file.path for file in committed}, strict=strict),
            *_holes(ranges, strict=strict),
        ),
    )


def _lost(paths: Iterable[str]) -> Iterator[Note]:
    if lost := sorted(paths):
        text = f"{_files(lost)} not there that the archive has committed: {_some(lost)}"
        yield Note(text, differs=True)


def _twice(ours: Sequence[ArchivedFile]) -> Iterator[Note]:
    counts = Counter(file.path for file in ours)
    if twice := sorted(path for path, count in counts.items() if count > 1):
        yield Note(f"{_files(twice)} committed more than once: {_some(twice)}", differs=True)


def _uncommitted(paths: Iterable[str], *, strict: bool) -> Iterator[Note]:
    """Files that no commit names, but that readers of plain Parquet would read."""
    visible = sorted(
        path
        for path in paths
        if path.endswith(".parquet") and not any(part[0] in "._" for part in path.split("/"))
    )
    ours = [path for path in visible if OURS.search(path)]
    others = [path for path in visible if not OURS.search(path)]
    for some, way_out in (
        (ours, "the next start of the archive job removes them"),
        (others, "no job of ours made them: take them away"),
    ):
        if some:
            yield Note(
                f"{_files(some)} in the archive's folder not committed, though plain readers see"
                f" them ({way_out}): {_some(some)}",
                differs=strict,
            )


def _holes(ranges: Sequence[OffsetRange], *, strict: bool) -> Iterator[Note]:
    try:
        whole = merged(ranges)
    except ValueError as error:
        yield Note(f"the archive's commits overlap: {error}", differs=True)
        return
    holes = [
        f"{before.topic_partition} {before.end_offset}..{after.start_offset - 1}"
        for before, after in pairwise(whole)
        if before.topic_partition == after.topic_partition
    ]
    if holes:
        yield Note(f"offsets that no commit of the archive names: {_some(holes)}", differs=strict)


def _files(paths: Sequence[str]) -> str:
    return "1 file is" if len(paths) == 1 else f"{len(paths)} files are"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
