"""Copies topics to another cluster as a stream: exactly once, in order, resumable (see `writing`).

Each record keeps its partition, and its last header `odradek.source` has its source offset.  All
progress is kept at the target, and no checkpoint is needed: a mirror can resume on any machine.
Without progress (Kafka drops a group's commits after `offsets.retention.minutes`) it resumes after
the newest mark in the last 10,000 records of each partition.
"""

import json
import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .errors import PipelineError
from .kafka import Kafka
from .kafka_source import reading_options, stream_options
from .marks import check_name
from .placing import Route
from .running import run_stream
from .spark_types import DataFrame, DataStreamWriter, SparkSession
from .topic_settings import ask_settings
from .writing import Copy, open_topic, totals

STARTS: Final = ("earliest", "latest")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mirror:
    """What to copy, and how."""

    topics: Sequence[str]
    prefix: str = ""
    """Prefix of the topics' names at the target."""
    once: bool = False
    trigger: str | None = None
    query_name: str = "mirror"
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    isolation_level: str = "read_uncommitted"
    fail_on_data_loss: bool = True
    name: str = ""
    restart: bool = False
    compression: str | None = None


def mirror(spark: SparkSession, source: Kafka, target: Kafka, job: Mirror) -> tuple[int, int]:
    """Copy until stopped, or with `once` what is available now.

    Returns how many records were written, and how many were skipped because they existed.
    Raises: PipelineError.
    """
    asked = {"job": "mirror", "from": check_mirror(source, target, job)}
    copy = Copy(spark, target, asked=asked, compression=job.compression)
    starts = {topic: _open(copy, source, target, topic, job) for topic in job.topics}
    counts = [0, 0]

    def each(records: DataFrame, batch_id: int) -> None:
        written, skipped = _copy_batch(copy, records)
        counts[0] += written
        counts[1] += skipped

    with TemporaryDirectory(prefix="odradek-mirror-", ignore_cleanup_errors=True) as folder:
        # A new one for each run, whatever spark.sql.streaming.checkpointLocation says: the offsets
        # in an old one would lag behind the progress at the target.
        checkpoint = Path(folder).as_uri()

        def build() -> DataStreamWriter:
            reader = spark.readStream.format("kafka").options(**_options(source, job, starts))
            writing = reader.load().writeStream.option("checkpointLocation", checkpoint)
            return writing.foreachBatch(each)

        run_stream(build, once=job.once, trigger=job.trigger, name=job.query_name, kafka=source)
    copy.close()
    return counts[0], counts[1]


def _copy_batch(copy: Copy, records: DataFrame) -> tuple[int, int]:
    tallies = copy.write(records)
    done: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), tally in tallies.items():
        done[topic][partition] = tally.next_offset
    for topic, offsets in done.items():
        copy.advance(topic, offsets)
    return totals(tallies)


def _open(copy: Copy, source: Kafka, target: Kafka, topic: str, job: Mirror) -> dict[int, int]:
    """Claim the copy of a topic; returns where each partition resumes."""
    there = job.prefix + topic
    like = ask_settings(source, topic)
    partitions = open_topic(target, there, like)
    route = Route(topic, there, partitions, keep_partitions=True, name=job.name)
    route.place(like.partitions - 1, None)
    way = copy.open(route, restart=job.restart, may_recover=True, source_id=like.topic_id)
    ends = source.latest(topic)
    starts = first_offsets(topic, way.progress.done, source.earliest(topic), ends, job)
    # From here on, a restart with "latest" resumes from the same offsets.
    copy.advance(topic, starts)
    return starts


def first_offsets(
    topic: str,
    done: Mapping[int, int],
    earliest: Mapping[int, int],
    latest: Mapping[int, int],
    job: Mirror,
) -> dict[int, int]:
    """Where each partition resumes, given what is done.  Raises: PipelineError."""
    starts = {}
    for partition, first in earliest.items():
        begin = first if job.starting_offsets == "earliest" else latest[partition]
        start = done.get(partition, begin)
        if start > latest[partition]:
            raise PipelineError(
                f"{topic}-{partition} ends at offset {latest[partition]}, but was mirrored up to"
                f" {start}: it was made anew; use --restart to copy it from its beginning"
            )
        if start < first:
            if job.fail_on_data_loss:
                raise PipelineError(
                    f"the offsets {start} to {first - 1} of {topic}-{partition} were removed before"
                    f" they were mirrored: go on without them by --no-fail-on-data-loss"
                )
            logger.warning(
                "offsets lost topic=%s partition=%d first=%d last=%d",
                topic, partition, start, first - 1,
            )  # fmt: skip
            start = first
        starts[partition] = start
    return starts


def _options(source: Kafka, job: Mirror, starts: Mapping[str, Mapping[int, int]]) -> dict[str, str]:
    return reading_options(
        source, isolation_level=job.isolation_level, fail_on_data_loss=job.fail_on_data_loss
    ) | stream_options(
        job.topics,
        starting_offsets=json.dumps(starts),
        max_offsets_per_trigger=job.max_offsets_per_trigger,
    )


def check_mirror(source: Kafka, target: Kafka, job: Mirror) -> str:
    """The source's cluster id; needs no Spark.

    Raises: PipelineError, also if a copy would be copied again forever.
    """
    check_name(job.name)
    came_from = source.cluster_id()
    if came_from != target.cluster_id():
        return came_from
    if not job.prefix:
        raise PipelineError(
            "--from and --to are one cluster, and topics cannot be copied into themselves: give"
            " --prefix for the names of the copies"
        )
    copies = sorted(set(job.topics) & {job.prefix + topic for topic in job.topics})
    if copies:
        raise PipelineError(
            f"{', '.join(copies)} would be copied, too, and is a copy: leave it out of --topics, or"
            f" of the pattern, as (?!{re.escape(job.prefix)}).* does"
        )
    return came_from
