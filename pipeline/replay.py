"""Copies an archived topic into a topic: exactly once, in order, resumable (see `writing`)."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .before_spark import check_archived, local_folder
from .copy_progress import check_room
from .copy_task import NO_TIME_MS
from .files import Files
from .kafka import Kafka
from .manifest import Archive, all_ranges, read_commits, read_records
from .marks import check_name
from .offsets import Spans
from .placing import Route
from .replay_plan import (
    EVERYTHING,
    Wanted,
    chunk_size,
    chunks,
    offsets_per_record,
    rates,
    shares,
    spans_of,
)
from .session import SparkOptions
from .spark_types import DataFrame, SparkSession
from .status_line import StatusLine, time_left
from .stop_signals import stop_signals
from .topic_settings import TopicSettings, ask_settings, read_settings
from .writing import Copy, check_keeps_timestamps, open_topic, retention_warning, totals

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay, and how."""

    topic: str
    to_topic: str
    wanted: Wanted = EVERYTHING
    keep_partitions: bool = False
    rate: float | None = None
    """Records per second."""
    name: str = ""
    restart: bool = False
    compression: str | None = None


@dataclass(slots=True)
class Done:
    """What a replay has done so far."""

    written: int = 0
    skipped: int = 0
    """Records that the target already had, from an interrupted run."""
    oldest_ms: int = NO_TIME_MS
    chunks: int = 0
    chunks_planned: int = 0
    stopped: bool = False
    """Whether a signal stopped it before the end."""


def replay(
    spark: SparkSession,
    archive_uri: str,
    target: Kafka,
    job: Replay,
    *,
    source: Kafka | None = None,
) -> Done:
    """Run a replay, or resume it: what the same job has copied before is not copied again.

    `source`: the cluster whose topic gives a missing target its partitions and settings; else they
    come from the archive.  Raises: PipelineError, and Spark's own errors.
    """
    check_name(job.name)
    archive = Archive(Files(spark, archive_uri))
    check_archived(archive.files, job.topic)
    ranges = archive.ranges([job.topic])
    spans = spans_of(ranges, job.wanted)
    route = _open_target(archive, target, source, job, spans)
    check_room(route, {p: end for p, (_, end) in spans.items()})
    copy = Copy(spark, target, asked=_asked(job, archive), compression=job.compression)
    way = copy.open(route, restart=job.restart)
    files = archive.committed([job.topic])
    records = sum(file.records for file in files)
    size = int(chunk_size(job.rate) * offsets_per_record(ranges, records))
    plan = list(chunks(spans, way.progress.done, size))
    done = Done(chunks_planned=len(plan))
    warned = False
    began_s = time.monotonic()
    with stop_signals() as stop, StatusLine() as line:
        line.show(replay_status(job, done, 0))
        for chunk in plan:
            if stop.is_set():
                done.stopped = True
                break
            # Every chunk opens all files that it reads again.
            touched = [file for file in files if file.may_hold(chunk)]
            _copy_chunk(copy, read_records(spark, archive.files, touched), job, chunk, done)
            line.show(replay_status(job, done, time.monotonic() - began_s))
            warned = warned or _warn(target, job, done)
    copy.close()
    return done


def check_replay(archive_uri: str, target: Kafka, job: Replay, options: SparkOptions) -> None:
    """Refuse what can be known before Spark starts.  Raises: PipelineError."""
    check_name(job.name)
    folder = local_folder(archive_uri, options)
    if folder is not None:
        check_archived(folder, job.topic)
        ranges = [asked for asked in all_ranges(read_commits(folder)) if asked.topic == job.topic]
        spans_of(ranges, job.wanted)
    if target.exists(job.to_topic):
        check_keeps_timestamps(target, job.to_topic)


def replay_status(job: Replay, done: Done, elapsed_s: float) -> str:
    """The terminal's line after a chunk."""
    line = (
        f"{job.topic} to {job.to_topic}: {done.chunks} of {done.chunks_planned} chunks,"
        f" {done.written:,} records written"
    )
    if not done.chunks:
        return line
    share = done.chunks / done.chunks_planned
    return f"{line}, {done.written / max(elapsed_s, 1e-9):,.0f}/s{time_left(share, elapsed_s)}"


def _copy_chunk(copy: Copy, records: DataFrame, job: Replay, chunk: Spans, done: Done) -> None:
    started_s = time.monotonic()
    tasks = shares(chunk, copy.spark.sparkContext.defaultParallelism)
    limits = {(job.topic, p): rate for p, rate in rates(chunk, tasks, job.rate).items()}
    wanted = _between(records, chunk, job.wanted)
    tallies = copy.write(_in_tasks(copy.spark, wanted, tasks), limits)
    copy.advance(job.topic, {p: end for p, (_, end) in chunk.items()})
    written, skipped = totals(tallies)
    done.written += written
    done.skipped += skipped
    done.chunks += 1
    oldest = [tally.oldest_ms for tally in tallies.values()]
    done.oldest_ms = min([done.oldest_ms, *oldest])
    elapsed_s = time.monotonic() - started_s
    logger.info(
        "chunk replayed topic=%s target=%s chunk=%d chunks=%d written=%d skipped=%d seconds=%.1f"
        " records_per_s=%.0f written_total=%d",
        job.topic, job.to_topic, done.chunks, done.chunks_planned, written, skipped, elapsed_s,
        written / max(elapsed_s, 1e-9), done.written,
    )  # fmt: skip


def _warn(target: Kafka, job: Replay, done: Done) -> bool:
    """Warn if retention soon removes what is written; returns whether it did."""
    warning = retention_warning(target, job.to_topic, done.oldest_ms)
    if warning is not None:
        logger.warning("%s", warning)
    return warning is not None


def _open_target(
    archive: Archive, target: Kafka, source: Kafka | None, job: Replay, spans: Spans
) -> Route:
    if target.exists(job.to_topic):
        partitions = target.partitions(job.to_topic)
    else:
        like = _settings(archive, target, source, job.topic, spans)
        partitions = open_topic(target, job.to_topic, like)
    route = Route(job.topic, job.to_topic, partitions, job.keep_partitions, job.name)
    if job.keep_partitions:
        route.place(max(spans), None)
    return route


def _settings(
    archive: Archive, target: Kafka, source: Kafka | None, topic: str, spans: Spans
) -> TopicSettings:
    """What a missing target is modelled on: the source, else the archive, else its ranges."""
    if source is not None:
        return ask_settings(source, topic)
    kept = read_settings(archive.files, topic)
    if kept is not None:
        return kept
    if target.exists(topic):
        return ask_settings(target, topic)
    return TopicSettings(max(spans) + 1, {})


def _asked(job: Replay, archive: Archive) -> object:
    """The request, which a later run must repeat in order to resume this one."""
    wanted = asdict(job.wanted)
    del wanted["ending_offsets"]  # more may have been archived since
    # Another archive's topic of that name has other records at the same offsets.
    which = {"archive": archive.files.uri, "keep_partitions": job.keep_partitions}
    return {"job": "replay", **which, **wanted}


def _between(records: DataFrame, chunk: Spans, wanted: Wanted) -> DataFrame:
    from functools import reduce
    from operator import or_

    from pyspark.sql import functions as f

    column = f.col
    conditions = [
        (column("partition") == p) & (column("offset") >= start) & (column("offset") < end)
        for p, (start, end) in chunk.items()
    ]
    # The outer bounds can be checked against Parquet's statistics without the partition.
    lowest = min(start for start, _ in chunk.values())
    highest = max(end for _, end in chunk.values())
    records = records.where((column("offset") >= lowest) & (column("offset") < highest))
    records = records.where(reduce(or_, conditions))
    time = column("timestamp")
    if wanted.starting_ms is not None:
        records = records.where(time >= f.timestamp_millis(f.lit(wanted.starting_ms)))
    if wanted.ending_ms is not None:
        records = records.where(time < f.timestamp_millis(f.lit(wanted.ending_ms)))
    return records


def _in_tasks(spark: SparkSession, records: DataFrame, tasks: Sequence[Sequence[int]]) -> DataFrame:
    """Each source partition in one task, sorted; each task gets the partitions planned for it."""
    from pyspark.sql import functions as f

    seeds = _seeds(spark, len(tasks))
    seed_of = {p: seeds[number] for number, task in enumerate(tasks) for p in task}
    by_partition = f.array(*[f.lit(seed_of.get(p, 0)) for p in range(max(seed_of) + 1)])
    seed = f.element_at(by_partition, f.col("partition") + 1)
    spread = records.withColumn("_task", seed).repartition(len(tasks), "_task")
    return spread.sortWithinPartitions("offset", "partition")


def _seeds(spark: SparkSession, tasks: int) -> list[int]:
    """For each task, a number that Spark's hash partitioning sends to that task only."""
    numbers = spark.range(100 + 40 * tasks).selectExpr("cast(id as int) as id")
    rows = numbers.selectExpr("id", f"pmod(hash(id), {tasks}) as task").collect()
    found: Mapping[int, int] = {row.task: row.id for row in rows}
    return [found[task] for task in range(tasks)]
