"""The manifest of an archive: its commits, in order.

`DIR/_odradek/commits/` has a JSON file for each: the offset ranges that were requested from Kafka,
and the Parquet files with the records. Only files that a commit names belong to the archive. From
time to time a snapshot, one commit that replaces all before it, saves readers the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from .documents import document_of
from .errors import PipelineError
from .files import Files, Folder
from .kafka import ISOLATION_LEVELS
from .offsets import Span, Spans, TopicPartition
from .small_tables import small_table
from .spark_types import DataFrame, SparkSession

VERSION: Final = 1
ROOM: Final = "_odradek"
"""Folder for everything except records; Spark's readers skip names with a leading underscore."""
ABOUT: Final = f"{ROOM}/archive.json"
COMMITS: Final = f"{ROOM}/commits"
SUFFIX: Final = ".json"
SNAPSHOT: Final = ".snapshot.json"
COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
"""The columns of Spark's Kafka source, and their types."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition, as requested from Kafka: there may be fewer records."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    """Exclusive."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One Parquet file."""

    path: str
    """Relative to the archive's folder."""
    topic: str
    records: int
    size_bytes: int = 0
    spans: Spans = field(default_factory=dict, compare=False)
    """The offsets that it covers, by partition; empty if the commit does not record them."""

    def may_hold(self, wanted: Spans) -> bool:
        """Whether the file may hold records with these offsets."""
        return not self.spans or any(
            max(start, self.spans[p][0]) < min(end, self.spans[p][1])
            for p, (start, end) in wanted.items()
            if p in self.spans
        )


@dataclass(frozen=True, slots=True)
class Commit:
    """One atomic change of the archive."""

    number: int
    ranges: tuple[OffsetRange, ...]
    files: tuple[ArchivedFile, ...]
    removed: tuple[str, ...] = ()
    """Paths of earlier commits' files that a compaction has replaced with `files`."""

    def to_json(self) -> dict[str, Any]:
        """As it is written; spans are a field of their own, which older readers ignore."""
        document = asdict(self)
        spans = {file["path"]: file.pop("spans") for file in document["files"]}
        return {"version": VERSION, **document, "spans": spans}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Commit":
        """Read the document of `to_json`.  Raises: KeyError, TypeError, ValueError."""
        spans = dict(document.get("spans", {}))
        return cls(
            document["number"],
            tuple(OffsetRange(**fields) for fields in document["ranges"]),
            tuple(
                ArchivedFile(**fields, spans=_spans(spans.get(fields["path"], {})))
                for fields in document["files"]
            ),
            tuple(document["removed"]),
        )


def _spans(document: Mapping[str, Sequence[int]]) -> dict[int, Span]:
    return {int(partition): (start, end) for partition, (start, end) in dict(document).items()}


@dataclass(frozen=True, slots=True)
class About:
    """The properties of an archive that never change."""

    partition_by: tuple[str, ...] = ("topic", "date")
    isolation_level: str = ISOLATION_LEVELS[0]

    def to_json(self) -> dict[str, Any]:
        """As it is written."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "About":
        """Read the document of `to_json`.  Raises: KeyError, TypeError."""
        return cls(tuple(document["partition_by"]), document["isolation_level"])


class Archive:
    """An archive, for reading."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def about(self) -> About:
        """Its unchanging properties.  Raises: PipelineError, also if there is no archive."""
        return about_of(self.files)

    def commits(self) -> list[Commit]:
        """All commits in order, without files that later commits removed.

        Raises: PipelineError, also if there is no archive.
        """
        self.about()
        return read_commits(self.files)

    def topics(self) -> list[str]:
        """The topics whose offsets it holds, sorted."""
        return sorted({asked.topic for asked in self.ranges()})

    def ranges(self, topics: Collection[str] | None = None) -> list[OffsetRange]:
        """The archived offset ranges, sorted; adjacent ranges are merged."""
        return [
            asked
            for asked in all_ranges(self.commits())
            if asked.start_offset < asked.end_offset
            if topics is None or asked.topic in topics
        ]

    def committed(self, topics: Collection[str] | None = None) -> list[ArchivedFile]:
        """The files that commits name, of all or some topics."""
        files = (file for commit in self.commits() for file in commit.files)
        return [file for file in files if topics is None or file.topic in topics]

    def ends(self) -> dict[TopicPartition, int]:
        """The offset after the last archived one, by topic and partition."""
        return ends(self.commits())

    @property
    def isolation_level(self) -> str:
        """The isolation.level with which records are archived."""
        return self.about().isolation_level

    def read(self, spark: SparkSession, topics: Collection[str] | None = None) -> DataFrame:
        """The records of committed files, in the columns of Spark's Kafka source."""
        return read_records(spark, self.files, self.committed(topics))


def read_records(spark: SparkSession, files: Files, some: Sequence[ArchivedFile]) -> DataFrame:
    """The records of some files of an archive, in the columns of Spark's Kafka source."""
    if not some:
        return small_table(spark, [], schema())
    paths = [files.absolute(file.path) for file in some]
    reader = spark.read.schema(schema()).option("basePath", files.absolute())
    return reader.parquet(*paths).select(*COLUMNS)


def schema(*, without: Collection[str] = ()) -> str:
    """The columns in Spark's DDL, `without` some: partition columns are in no file."""
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if name not in without)


# -- reading its files


def commit_path(number: int, suffix: str = SUFFIX) -> str:
    """The path of a commit, or of a snapshot of it and all before it."""
    return f"{COMMITS}/{number:020d}{suffix}"


def read_about(files: Folder) -> About | None:
    """The properties of an archive; None if this is no archive.  Raises: PipelineError."""
    if not files.exists(ABOUT):
        return None
    with document_of(files, ABOUT, VERSION) as document:
        return About.from_json(document)


def about_of(files: Folder) -> About:
    """The properties of an archive.  Raises: PipelineError, also if this is no archive."""
    about = read_about(files)
    if about is None:
        raise PipelineError(
            f"{files.absolute()} is no archive: give the folder that odradek pipeline archive wrote"
            " with --to"
        )
    return about


def read_commits(files: Folder) -> list[Commit]:
    """The commits from the newest snapshot on, in order, with live files only.

    Raises: PipelineError.
    """
    names = [status.path.rpartition("/")[2] for status in files.list(COMMITS)]
    numbered = [(int(name[:20]), name[20:]) for name in names if name[:20].isdecimal()]
    newest = max((number for number, suffix in numbered if suffix == SNAPSHOT), default=-1)
    later = sorted(number for number, suffix in numbered if suffix == SUFFIX and number > newest)
    for expected, number in enumerate(later, newest + 1):
        if number != expected:
            raise PipelineError(
                f"the archive {files.absolute()} is damaged: {commit_path(expected)} is not there, "
                "though later commits are; restore the file"
            )
    commits = [] if newest < 0 else [read_commit(files, commit_path(newest, SNAPSHOT))]
    return live([*commits, *(read_commit(files, commit_path(number)) for number in later)])


def read_commit(files: Folder, path: str) -> Commit:
    """One commit.  Raises: PipelineError."""
    with document_of(files, path, VERSION) as document:
        return Commit.from_json(document)


# -- computed from commits


def live(commits: Sequence[Commit]) -> list[Commit]:
    """The same commits without files that later ones removed."""
    removed = {path for commit in commits for path in commit.removed}
    if not removed:
        return list(commits)
    return [
        replace(commit, files=tuple(file for file in commit.files if file.path not in removed))
        for commit in commits
    ]


def snapshot(commits: Sequence[Commit]) -> Commit:
    """One commit that replaces all of these."""
    files = tuple(file for commit in live(commits) for file in commit.files)
    return Commit(commits[-1].number, tuple(all_ranges(commits)), files)


def all_ranges(commits: Iterable[Commit]) -> list[OffsetRange]:
    """The offset ranges of all commits, merged.  Raises: PipelineError if any overlap."""
    try:
        return merged(asked for commit in commits for asked in commit.ranges)
    except ValueError as error:
        raise PipelineError(f"the archive is damaged, {error}") from error


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The ranges sorted, adjacent ones merged.  Raises: ValueError if any overlap."""
    result: list[OffsetRange] = []
    for asked in sorted(ranges):
        last = result[-1] if result else None
        if (
            last is None
            or last.topic_partition != asked.topic_partition
            or last.end_offset < asked.start_offset
        ):
            result.append(asked)
        elif last.end_offset == asked.start_offset:
            result[-1] = replace(last, end_offset=asked.end_offset)
        else:
            raise ValueError(
                f"offset {asked.start_offset} of {asked.topic_partition} was committed twice"
            )
    return result


def ends(commits: Iterable[Commit]) -> dict[TopicPartition, int]:
    """The offset after the last archived one, by topic and partition."""
    found: dict[TopicPartition, int] = {}
    for commit in commits:
        for asked in commit.ranges:
            key = asked.topic_partition
            found[key] = max(asked.end_offset, found.get(key, 0))
    return found
