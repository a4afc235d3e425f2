"""Archives topics in Parquet files, each offset exactly once, however often the job is killed.

Structured Streaming plans the batches and records them in its checkpoint; which offsets the archive
holds is known from its manifest alone. A batch that Spark repeats is skipped, and a lost checkpoint
is started anew where the archive ends.
"""

import logging
import os
import platform
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from .archive_commits import ArchiveWriter, begin, check_empty
from .archive_files import compact
from .archive_offsets import (
    asked_offsets,
    batch_ranges,
    check_archived_topics,
    check_deleted_topics,
    check_not_ahead,
    check_offsets,
    starting_offsets,
    wanted,
)
from .archive_writing import check_complete, only, staged_files, write_records
from .before_spark import local_folder
from .checkpoints import check_topics, deleted_topics, read_checkpoint
from .errors import PipelineError
from .files import Files, Folder
from .kafka import Kafka
from .kafka_source import reading_options, stream_options
from .manifest import ABOUT, ROOM, About, ends, read_about, read_commits
from .offsets import TopicPartition
from .running import run_stream
from .session import SparkOptions, has_executors, start
from .spark_types import DataFrame, SparkSession
from .topic_settings import check_topic_ids, keep_settings

CHECKPOINT: Final = f"{ROOM}/checkpoint"
PARTITION_COLUMNS: Final = ("topic", "date", "hour", "partition")
GLOB_CHARACTERS: Final = "{}[]*?\\"
"""Spark's readers would take a path with them for a pattern."""
DEFAULTS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # others cannot read INT96
    # Clients may write any timestamp, even of the year 1.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArchiveJob:
    """What to archive, and how; None: as when the archive was created, or the default."""

    to: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    """Instead of `topics`: a pattern for whole names, valid in both Java and Python."""
    checkpoint: str | None = None
    once: bool = False
    trigger: str | None = None
    name: str | None = None
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    partition_by: tuple[str, ...] | None = None
    isolation_level: str | None = None
    fail_on_data_loss: bool = True
    compact_to_bytes: int | None = None
    """Before the first batch, merge smaller files into files of about this size."""

    @property
    def query_name(self) -> str:
        """Spark's queryName."""
        return self.name or f"archive-{self.pattern or '-'.join(self.topics)}"


@dataclass(slots=True)
class Archived:
    """What a run of the job has added."""

    commits: int = 0
    records: int = 0


def archive(job: ArchiveJob, options: SparkOptions, kafka: Kafka) -> Archived:
    """Run the job until it is stopped, or with `once` until the topics' ends.

    Raises: PipelineError.
    """
    check_job(job)
    topics = kafka.topics(job.topics, pattern=job.pattern)
    asked_offsets(job.starting_offsets, {topic: kafka.partitions(topic) for topic in topics})
    folder = local_folder(job.to, options)
    if folder is not None:
        check_folder(folder, job, topics)
    spark = start(job.query_name, options.with_defaults(DEFAULTS))
    files = Files(spark, job.to)
    files.check_writable()
    # All checks come before the claim, which takes the archive from a job that may be running.
    about, archived = check_folder(files, job, topics)
    _check_cluster(job, files, kafka, topics, archived)
    checkpoint = Files(spark, job.checkpoint or files.absolute(CHECKPOINT))
    found = read_checkpoint(checkpoint)
    if found is not None:
        gone = deleted_topics(found.offsets, topics, job.pattern)
        check_deleted_topics(gone, fail_on_data_loss=job.fail_on_data_loss)
        check_topics(found, [*topics, *gone], checkpoint.absolute())
        check_not_ahead(found, archived, checkpoint.absolute(), files.absolute())
    if not files.exists(ABOUT):
        begin(files, about)
    writer = claim(files)
    keep_settings(files, kafka, topics)
    if job.compact_to_bytes is not None:
        compact(spark, writer, about, job.compact_to_bytes)
    batches = BatchArchiver(spark, kafka, writer, checkpoint, about, job, topics)
    source = _source(job, kafka, about, writer, topics)

    def build() -> Any:
        frame = spark.readStream.format("kafka").options(**source).load()
        writing = frame.writeStream.option("checkpointLocation", checkpoint.absolute())
        return writing.foreachBatch(batches)

    run_stream(build, once=job.once, trigger=job.trigger, name=job.query_name, kafka=kafka)
    return batches.archived


def check_job(job: ArchiveJob) -> None:
    """Refuse options that are wrong whatever the cluster holds.  Raises: PipelineError."""
    by = job.partition_by
    if by is not None and (by[:1] != ("topic",) or len(set(by)) < len(by)):
        raise PipelineError(
            f"--partition-by {','.join(by)} cannot be used: begin with topic, then any of "
            f"{', '.join(PARTITION_COLUMNS[1:])}, each once"
        )
    for column in by or ():
        if column not in PARTITION_COLUMNS:
            raise PipelineError(
                f"--partition-by cannot be {column}: it takes {', '.join(PARTITION_COLUMNS)}"
            )
    if any(character in job.to for character in GLOB_CHARACTERS):
        raise PipelineError(
            f"{job.to} cannot be an archive's folder: Spark takes {' '.join(GLOB_CHARACTERS)} for "
            "a pattern, name it without them"
        )


def claim(files: Files) -> ArchiveWriter:
    """Claim an archive for this process.  Raises: PipelineError."""
    owner = {
        "host": platform.node(),
        "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return ArchiveWriter(files, uuid.uuid4().hex[:8], owner)


def check_folder(
    files: Folder, job: ArchiveJob, topics: Collection[str]
) -> tuple[About, dict[TopicPartition, int]]:
    """The archive's description, or that of a new one, and the ends of what it holds.

    Raises: PipelineError if it cannot take these topics, or the folder holds something else.
    """
    about = _about(files, job)
    archived = ends(read_commits(files))
    check_archived_topics({topic for topic, _ in archived}, topics, job.pattern, files.absolute())
    if not files.exists(ABOUT):
        check_empty(files)
    return about, archived


def _about(files: Folder, job: ArchiveJob) -> About:
    """The archive's description, or that of a new one.  Raises: PipelineError if options differ."""
    about = read_about(files)
    if about is None:
        about = About(
            job.partition_by or About().partition_by, job.isolation_level or About().isolation_level
        )
    if job.partition_by not in (None, about.partition_by):
        raise PipelineError(
            f"{files.absolute()} is partitioned by {','.join(about.partition_by)}: leave "
            "--partition-by away, or give another folder"
        )
    if job.isolation_level not in (None, about.isolation_level):
        raise PipelineError(
            f"{files.absolute()} is filled with isolation level {about.isolation_level}: leave "
            "--isolation-level away, or give another folder"
        )
    return about


def _check_cluster(
    job: ArchiveJob,
    files: Files,
    kafka: Kafka,
    topics: Sequence[str],
    archived: Mapping[TopicPartition, int],
) -> None:
    known = [topic for topic in topics if any(topic == name for name, _ in archived)]
    check_offsets(
        archived,
        {topic: kafka.earliest(topic) for topic in known},
        {topic: kafka.latest(topic) for topic in known},
        fail_on_data_loss=job.fail_on_data_loss,
    )
    check_topic_ids(files, kafka, known)


def _source(
    job: ArchiveJob, kafka: Kafka, about: About, writer: ArchiveWriter, topics: Sequence[str]
) -> dict[str, str]:
    """The options of Spark's Kafka source."""
    partitions = {topic: kafka.partitions(topic) for topic in topics}
    return reading_options(
        kafka, isolation_level=about.isolation_level, fail_on_data_loss=job.fail_on_data_loss
    ) | stream_options(
        topics,
        pattern=job.pattern,
        starting_offsets=starting_offsets(job.starting_offsets, writer.ends, partitions),
        max_offsets_per_trigger=job.max_offsets_per_trigger,
    )


class BatchArchiver:
    """The foreachBatch function: archives every batch."""

    def __init__(
        self,
        spark: SparkSession,
        kafka: Kafka,
        writer: ArchiveWriter,
        checkpoint: Files,
        about: About,
        job: ArchiveJob,
        topics: Collection[str],
    ) -> None:
        """`topics`: those whose settings are already recorded."""
        self._spark = spark
        self._kafka = kafka
        self._writer = writer
        self._checkpoint = checkpoint
        self._about = about
        self._job = job
        self._known = set(topics)
        self.archived = Archived()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Archive a batch; one that Spark repeats is skipped.  Raises: PipelineError."""
        checkpoint = read_checkpoint(self._checkpoint)
        if checkpoint is None or checkpoint.batch_id != batch_id:
            raise PipelineError(
                f"another job uses the checkpoint {self._checkpoint.absolute()}: let it end first, "
                "or give this one another by --checkpoint"
            )
        asked = batch_ranges(checkpoint)
        parts = wanted(asked, self._writer.ends, gaps_allowed=not self._job.fail_on_data_loss)
        if not parts:
            logger.info("batch is archived already batch=%d", batch_id)
            return
        folder = self._writer.stage()
        target = self._writer.files.absolute(folder)
        batch = only(frame, asked, parts)
        write_records(batch, target, self._about.partition_by)
        staged = staged_files(self._spark, self._writer.files, folder, parts)
        if has_executors(self._spark):
            check_complete(batch, staged, parts, self._writer.files.absolute())
        commit = self._writer.commit(folder, staged, parts)
        records = sum(file.records for file in staged)
        self.archived.commits += 1
        self.archived.records += records
        logger.info(
            "commit number=%d batch=%d records=%d files=%d",
            commit.number,
            batch_id,
            records,
            len(staged),
        )
        self._keep_settings({part.topic for part in parts} - self._known)

    def _keep_settings(self, topics: Collection[str]) -> None:
        """Record the settings of topics that appeared while the job ran and match its pattern."""
        for topic in sorted(topics):
            logger.info("new topic topic=%s", topic)
            try:
                keep_settings(self._writer.files, self._kafka, [topic])
            except PipelineError as error:  # deleted again, or retried with its next records
                logger.warning("topic settings unknown topic=%s: %s", topic, error)
            else:
                self._known.add(topic)
