"""Copies records into topics of a cluster with Spark: what replay and mirror share.

Guarantees, for one job at a time under one name:

- Each requested record is in the target exactly once, also after the job, Spark's driver, its
  executors or brokers were killed at any moment and the same command was run again.
- Two records of one source partition that go to one target partition keep their order there.
  Readers of the target see a prefix at any moment.
- Key, value, headers and timestamp are kept; one header is appended (`marks`).

How: records are written in order and in rounds (`copy_task`), and a start reads the marks after the
last commit of progress (`copy_progress`).  A start first claims the copy.  A task sends only if it
has seen within the last second that its job still owns the copy, so that tasks of a replaced job
stop.  Of jobs that start together, the one whose commit came last goes on.

Assumptions:

- Records that the target acknowledged are durable.
- What a task begins to send can be read within another second or never, even if the task is
  suspended or an in-sync follower lags.  (Kafka fences writers by transactional id only, which not
  every broker supports; an audit finds duplicates.)
- Retention and compaction of the target do not remove its newest records between the kill and the
  restart.
- The group with the progress does not expire (Kafka keeps it for `offsets.retention.minutes`, 7
  days).  If it does, a replay cannot be resumed and says so.
"""

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from .copy_partition import COLUMNS, RESULT_SCHEMA, write_partition
from .copy_progress import (
    Progress,
    ProgressStore,
    Written,
    check_owner,
    written_lately,
    written_since,
)
from .copy_task import LEASE_S, CopyTask, Lane, Tally
from .errors import PipelineError
from .kafka import Kafka
from .placing import Route
from .session import SparkOptions, has_executors
from .spark_types import DataFrame, SparkSession
from .topic_settings import TopicSettings

ARROW_RECORDS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_RECORDS_OURS: Final = "1000"
"""Arrow batches are held in memory whole, and records may be large."""
STAGE_ATTEMPTS: Final = "spark.stage.maxConsecutiveAttempts"
# As in Kafka's MirrorMaker: they belong to a cluster, or would not let timestamps be kept.
SETTINGS_LEFT_OUT: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Way:
    """The state of one route while it is copied."""

    route: Route
    size_bytes_max: int
    progress: Progress
    restarts: bool
    """Whether to ignore what other jobs have written."""
    was_closed: bool
    """Whether no chunk was in progress when it was claimed."""
    claimed_at_s: float
    """time.monotonic()"""
    written: Written | None = None
    """What other jobs have written after `progress.begins`; None: not read yet."""

    @property
    def is_settled(self) -> bool:
        """Whether progress has passed everything that other jobs have written."""
        if self.written is None:
            return False
        done = self.progress.done
        return all(done.get(p, 0) > offset for (p, _), offset in self.written.items())


class Copy:
    """Copies chunk by chunk: `open` each route before the first, `close` after the last."""

    def __init__(
        self, spark: SparkSession, target: Kafka, *, asked: object, compression: str | None = None
    ) -> None:
        """`asked` (JSON) describes the request; only the same request can resume the copy."""
        self.spark = spark
        self.store = ProgressStore(
            target.bootstrap_servers, target.properties, option=target.option
        )
        self.ways: dict[str, Way] = {}
        self._asked = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
        self._owner = secrets.token_hex(8)
        self._under_way: set[str] = set()
        self._compression = compression
        if spark.conf.get(ARROW_RECORDS) == "10000":  # Spark's default
            spark.conf.set(ARROW_RECORDS, ARROW_RECORDS_OURS)
        if spark.conf.get("spark.speculation", "false").lower() == "true":
            raise PipelineError(
                "tasks that run twice would write records twice: set --conf spark.speculation=false"
            )
        if has_executors(spark) and spark.conf.get(STAGE_ATTEMPTS, "4") != "1":
            raise PipelineError(
                "stages that run twice would write records twice: set --conf"
                f" {STAGE_ATTEMPTS}=1; the same command goes on where a lost executor ended it"
            )

    def open(
        self,
        route: Route,
        *,
        restart: bool = False,
        may_recover: bool = False,
        source_id: str | None = None,
    ) -> Way:
        """Load the progress of a route, and claim it.  Raises: PipelineError.

        `restart` forgets the progress.  `may_recover`: without progress, resume after the newest
        marks; correct only if partitions are kept and everything is copied.  `source_id`: topic id
        of the source, if the offsets are those of that topic.
        """
        check_keeps_timestamps(self.store, route.target_topic)
        size_max = int(self.store.setting(route.target_topic, "max.message.bytes"))
        # Read before the progress: what a rival writes from here on is then found after `begins`.
        ends = self.store.latest(route.target_topic)
        progress = None if restart else self.store.load(route)
        if progress is None:
            done = {} if restart else self._recovered(route, may_recover)
            progress = Progress(self._asked, self._owner, ends, done, closed=True)
        self._check(route, progress, source_id)
        was_closed = progress.closed
        begins = ends if was_closed else progress.begins
        progress = replace(
            progress,
            owner=self._owner,
            begins=begins,
            closed=False,
            source_id=source_id or progress.source_id,
        )
        self.store.save(route, progress)
        way = Way(route, size_max, progress, restart, was_closed, time.monotonic())
        self.ways[route.source_topic] = way
        return way

    def write(
        self, records: DataFrame, rates: Mapping[tuple[str, int], float] = {}
    ) -> dict[tuple[str, int], Tally]:
        """Write records; each Spark partition must hold whole source partitions, in order.

        Returns a tally by source partition.  Raises: PipelineError, and Spark's own errors.
        """
        lanes = {
            topic: Lane(way.route, way.size_bytes_max, self._settled(way))
            for topic, way in self.ways.items()
        }
        task = CopyTask(
            self.store.bootstrap_servers,
            self.store.properties,
            lanes,
            self._owner,
            rates,
            self._compression,
            self.store.option,
        )

        def write(batches: Iterator[Any]) -> Iterator[Any]:
            return write_partition(task, batches)

        self._under_way = set(self.ways)
        rows = _in_columns(records).mapInArrow(write, RESULT_SCHEMA).collect()
        error = next((row.error for row in rows if row.error is not None), None)
        if error is not None:
            raise PipelineError(error)
        self._under_way = {row.topic for row in rows}
        return {
            (row.topic, row.partition): Tally(
                row.next_offset, row.written, row.skipped, row.oldest_ms
            )
            for row in rows
        }

    def advance(self, topic: str, done: Mapping[int, int]) -> None:
        """Commit that everything below these offsets of a source topic is in the target.

        Raises: PipelineError.
        """
        way = self.ways[topic]
        way.progress = replace(way.progress, done={**way.progress.done, **done})
        if way.is_settled:
            # Until then the next restart must read the interrupted chunk's marks again.
            begins = self.store.latest(way.route.target_topic)
            way.progress = replace(way.progress, begins=begins)
        self._save(way)
        self._under_way.discard(topic)

    def close(self) -> None:
        """End the copy after its last chunk; an interrupted chunk is left to the next start.

        Raises: PipelineError.
        """
        for topic, way in self.ways.items():
            # Where nothing was written, the state is as it was found.
            is_closed = way.was_closed if way.written is None else way.is_settled
            if is_closed and topic not in self._under_way:
                way.progress = replace(way.progress, closed=True)
                self._save(way)
        self.store.close()

    def _settled(self, way: Way) -> Written:
        """What other jobs have written, once those that our claim replaced have stopped.

        This includes jobs that claimed the copy together with us: Kafka's commits do not compare
        and swap, so that both believe that they own the copy until they look again.
        """
        while way.written is None:
            begins = way.progress.begins
            way.written = written_since(self.store, way.route, begins, way.claimed_at_s)
            if way.restarts and way.written:
                way.written = {}
                begins = self.store.latest(way.route.target_topic)
                way.progress = replace(way.progress, begins=begins)
                self._save(way)  # may reset `written`, so that it has to be read again
        return way.written

    def _save(self, way: Way) -> None:
        looked_at_s = time.time()
        check_owner(self.store, way.route, self._owner)
        self.store.save(way.route, way.progress)
        if not 0 <= time.time() - looked_at_s < LEASE_S:
            # Another job may have claimed the copy, and written, before this commit took it back.
            way.written, way.was_closed, way.restarts = None, False, False
            way.claimed_at_s = time.monotonic()

    def _recovered(self, route: Route, may_recover: bool) -> dict[int, int]:
        written = written_lately(self.store, route)
        if not written:
            return {}
        if not may_recover:
            raise PipelineError(
                f"{route.target_topic} holds records of {route.source_topic}, but how far that copy"
                f" came is not known any more (group {route.group}): copy into another topic, or"
                f" use --restart to write all of it again"
            )
        return {partition: offset + 1 for (partition, _), offset in written.items()}

    def _check(self, route: Route, progress: Progress, source_id: str | None) -> None:
        if progress.asked != self._asked:
            raise PipelineError(
                f"an earlier copy of {route.source_topic} to {route.target_topic} was asked for"
                f" something else: use its options to go on, --name NAME to make another copy, or"
                f" --restart to forget it"
            )
        if None not in (progress.source_id, source_id) and progress.source_id != source_id:
            raise PipelineError(
                f"{route.source_topic} was made anew since it was copied (its topic id was"
                f" {progress.source_id} and is {source_id}): copy it into another topic, or use"
                f" --restart to have it behind the records of before"
            )
        ends = self.store.latest(route.target_topic)
        if any(begin > ends.get(p, -1) for p, begin in progress.begins.items()):
            raise PipelineError(
                f"{route.target_topic} ends before what was copied into it: it was made anew or has"
                f" lost records; use --restart to copy from the beginning"
            )


def careful(options: SparkOptions) -> SparkOptions:
    """Options for a session that copies: stages are not retried.

    If a stage is retried because an executor was lost with its shuffle files, the new tasks cannot
    tell that they are not the first to write.  Source: TaskSetManager.scala, attemptNumber.
    """
    return options.with_defaults({STAGE_ATTEMPTS: "1"})


def _in_columns(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return records.withColumn("timestamp_ms", f.expr("unix_millis(timestamp)")).select(*COLUMNS)


def open_topic(target: Kafka, name: str, like: TopicSettings) -> int:
    """The topic's number of partitions; a missing topic is created like its source.

    Raises: PipelineError.
    """
    if not target.exists(name):
        if like.config is None:
            raise PipelineError(
                f"{name} is not there, and cannot be made like its source, whose settings are"
                f" hidden: allow the user DESCRIBE_CONFIGS on that, or create {name}"
            )
        kept = {key: value for key, value in like.config.items() if key not in SETTINGS_LEFT_OUT}
        target.create_topic(name, like.partitions, kept)
    return target.partitions(name)


def check_keeps_timestamps(kafka: Kafka, topic: str) -> None:
    """Refuse a topic whose broker replaces timestamps.  Raises: PipelineError."""
    if kafka.setting(topic, "message.timestamp.type") == "LogAppendTime":
        raise PipelineError(
            f"{topic} gives records the broker's time instead of their own: set"
            f" message.timestamp.type=CreateTime for it, or copy into another topic"
        )


def retention_warning(kafka: Kafka, topic: str, oldest_ms: int) -> str | None:
    """A warning if a topic's retention soon removes the records being written, else None.

    Raises: PipelineError.
    """
    if "delete" not in kafka.setting(topic, "cleanup.policy"):
        return None
    retention_ms = int(kafka.setting(topic, "retention.ms"))
    if retention_ms < 0 or oldest_ms >= time.time() * 1000 - retention_ms:
        return None
    return (
        f"records keep their timestamps, and some are older than the retention of {topic}"
        f" (retention.ms={retention_ms}): its brokers remove them soon; to keep them, set"
        f" retention.ms=-1 for it"
    )


def totals(tallies: Mapping[Any, Tally]) -> tuple[int, int]:
    """How many records were written, and how many were skipped because they existed."""
    return sum(t.written for t in tallies.values()), sum(t.skipped for t in tallies.values())
