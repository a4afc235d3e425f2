"""The audit: do broker, archive and copy hold the same records?

Each side is read up to an end that is fixed beforehand: first the copy's, then the archive's, then
the broker's, so that records written meanwhile make no difference.  If retention moves a log start
offset during the audit, it starts over.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .audit_archive import ArchiveState, archive_state
from .audit_compare import (
    NEVER,
    Comparison,
    Digest,
    PartitionResult,
    Place,
    Side,
    State,
    What,
    compare,
    range_size,
    suspects,
    together,
)
from .audit_report import ARCHIVE, BROKER, COPY, Note, Report
from .audit_rows import (
    Bounded,
    Bounds,
    broker_records,
    copied_rows,
    digests,
    look_closer,
    source_rows,
)
from .errors import PipelineError
from .files import Files
from .kafka import Kafka
from .marks import HEADER
from .offsets import TopicPartition
from .spark_types import SparkSession
from .status_line import StatusLine

ATTEMPTS_MAX: Final = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """A topic into which the audited one was replayed or mirrored."""

    kafka: Kafka
    topic: str
    name: str | None = None
    """Compare only records of the job of this name; None: of all jobs."""


@dataclass(frozen=True, slots=True)
class AuditJob:
    """What to audit, against an archive, a copy or both."""

    kafka: Kafka
    topics: Sequence[str]
    archive: str | None = None
    copy: CopiedTopic | None = None
    strict: bool = False
    """Count records that retention or compaction removed as differences."""
    allow_lag: bool = False
    """Ignore records before the first and after the last that archive or copy holds."""
    isolation_level: str | None = None
    """How to read the topics; None: as the archive did."""
    range_size: int | None = None


class _Moved(Exception):
    """Retention has removed records during the audit."""


def audit(spark: SparkSession, job: AuditJob, *, now_ms: int) -> Report:
    """Read all sides and compare them.  Raises: PipelineError."""
    job.kafka.topics(job.topics)
    with StatusLine() as line:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return _attempt(spark, job, now_ms, Steps(job, line))
            except _Moved as moved:
                logger.info("audit starts again attempt=%d reason=%s", attempt, moved)
    raise PipelineError(
        f"retention removed records of {', '.join(job.topics)} during each of"
        f" {ATTEMPTS_MAX} attempts: raise retention.ms or retention.bytes for the audit"
    )


class Steps:
    """Reports the current step of an audit, on the terminal and in the log."""

    def __init__(self, job: AuditJob, line: StatusLine) -> None:
        self._names = _names(job)
        self._count = 2 * len(self._names)  # ends, reading each side, comparing all but one
        self._number = 0
        self._line = line

    def begin(self, what: str) -> None:
        """Begin the next step."""
        self._number += 1
        assert self._number <= self._count
        logger.info("audit step=%d steps=%d: %s", self._number, self._count, what)
        self._line.show(f"audit: step {self._number} of {self._count}, {what}")

    def begin_to_read(self, side: str) -> None:
        """Begin the step that reads all of a side."""
        self.begin(f"reading {side}: {self._names[side]}")


def _attempt(spark: SparkSession, job: AuditJob, now_ms: int, steps: Steps) -> Report:
    steps.begin("asking where each side ends")
    # In this order, so that no copy ends after its source.
    copied = _bounds_of(job.copy.kafka, [job.copy.topic]) if job.copy else None
    archive = _archive_state(spark, job)
    kafka = _reader(job, archive)
    live = _bounds_of(kafka, job.topics)
    if archive is not None:
        _check_archived(archive, live)
    size = job.range_size or range_size(_lengths(live, archive))
    notes = list(archive.notes) if archive else []
    logger.info("audit topics=%s range_size=%d", ",".join(job.topics), size)

    steps.begin_to_read(BROKER)
    broker = _broker(spark, kafka, live, size, strict=job.strict)
    source = broker
    comparisons = []
    if archive is not None:
        steps.begin_to_read(ARCHIVE)
        source = _archive(spark, archive, job, size)
        notes += archive.check_counts(_counts(source.side))
        steps.begin(f"comparing {BROKER} with {ARCHIVE}")
        comparisons.append(_compare(broker, source, size, types=True))
    if job.copy is not None and copied is not None:
        steps.begin_to_read(COPY)
        copy, unmarked = _copy(spark, job, job.copy, copied, source.side, size)
        steps.begin(f"comparing {source.side.name} with {COPY}")
        comparison = _compare(source, copy, size, types=False)
        comparisons.append(comparison)
        notes += _copy_notes(job, job.copy, copied, comparison, unmarked)
    _check_starts(kafka, live)
    if job.copy is not None and copied is not None:
        _check_starts(job.copy.kafka, copied)
    return Report(
        topics=tuple(job.topics),
        names=_names(job),
        range_size=size,
        strict=job.strict,
        comparisons=tuple(comparisons),
        notes=tuple(notes),
        made_ms=now_ms,
    )


# -- the sides


def _broker(
    spark: SparkSession, kafka: Kafka, bounds: Bounds, size: int, *, strict: bool
) -> Bounded:
    records = broker_records(spark, kafka, bounds)
    found, _ = digests(source_rows(records), size)
    compacted = {key.topic for key in bounds.starts if _is_compacted(kafka, key.topic)}
    starts = {
        key: bounds.ends[key] if key.topic in compacted else start
        for key, start in bounds.starts.items()
    }
    return Bounded(
        Side(BROKER, found, starts, bounds.ends, early_differs=strict),
        lambda places: source_rows(broker_records(spark, kafka, bounds.within(places, size))),
    )


def _archive(spark: SparkSession, state: ArchiveState, job: AuditJob, size: int) -> Bounded:
    rows = source_rows(state.read(spark))
    with state.readable():
        found, _ = digests(rows, size)
    side = Side(
        ARCHIVE,
        found,
        state.starts,
        state.ends,
        early_differs=not job.allow_lag,
        late=_late(job),
    )
    return Bounded(side, lambda _: rows)


def _copy(
    spark: SparkSession, job: AuditJob, copy: CopiedTopic, bounds: Bounds, source: Side, size: int
) -> tuple[Bounded, int]:
    rows = copied_rows(broker_records(spark, copy.kafka, bounds), copy.name)
    everything, unmarked = digests(rows, size)
    found = {place: one for place, one in everything.items() if place.topic in job.topics}
    whole = _whole(found)
    keys = source.ends.keys() | whole.keys()
    ends = {key: whole[key].offset_last + 1 if key in whole else 0 for key in keys}
    starts: dict[TopicPartition, int] = {}
    if _is_compacted(copy.kafka, copy.topic):
        starts = ends
    elif any(bounds.starts.values()):
        starts = {key: whole[key].offset_first if key in whole else NEVER for key in keys}
    elif job.allow_lag:
        starts = {key: digest.offset_first for key, digest in whole.items()}
    side = Side(
        COPY,
        found,
        starts,
        ends,
        early_differs=job.strict,
        late=_late(job),
    )
    return Bounded(side, lambda _: rows), unmarked


def _late(job: AuditJob) -> State:
    return State.EQUAL if job.allow_lag else State.BEHIND


def _compare(left: Bounded, right: Bounded, size: int, *, types: bool) -> Comparison:
    places = suspects(left.side, right.side, types=types)
    logger.info(
        "compared %s with %s, ranges that differ: %d", left.side.name, right.side.name, len(places)
    )
    findings, examples = look_closer(left, right, places, size, types=types)
    return compare(left.side, right.side, findings, examples, size=size)


# -- what is known beforehand


def _archive_state(spark: SparkSession, job: AuditJob) -> ArchiveState | None:
    if job.archive is None:
        return None
    return archive_state(Files(spark, job.archive), job.topics, strict=job.strict)


def _check_archived(archive: ArchiveState, live: Bounds) -> None:
    archived = {key.topic for key in archive.starts}
    for topic in sorted({key.topic for key, end in live.ends.items() if end > 0} - archived):
        raise PipelineError(
            f"the archive {archive.files.absolute()} holds nothing of topic {topic}: give another"
            " --archive, or archive the topic first"
        )


def _reader(job: AuditJob, archive: ArchiveState | None) -> Kafka:
    """The cluster, read with the job's isolation level, else with the archive's."""
    level = job.isolation_level or (archive.isolation_level if archive else None)
    if level is None:
        return job.kafka
    properties = {**job.kafka.properties, "isolation.level": level}
    return Kafka(job.kafka.bootstrap_servers, properties, option=job.kafka.option)


def _bounds_of(kafka: Kafka, topics: Sequence[str]) -> Bounds:
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for topic in topics:
        latest, earliest = kafka.latest(topic), kafka.earliest(topic)
        for partition, end in latest.items():
            key = TopicPartition(topic, partition)
            starts[key] = earliest[partition]
            ends[key] = max(end, earliest[partition])
    return Bounds(starts, ends)


def _lengths(live: Bounds, archive: ArchiveState | None) -> Iterator[int]:
    for key, end in live.ends.items():
        first = live.starts[key]
        if archive is not None:
            first = min(first, archive.starts.get(key, first))
        yield end - first


def _is_compacted(kafka: Kafka, topic: str) -> bool:
    return "compact" in kafka.setting(topic, "cleanup.policy")


def _check_starts(kafka: Kafka, bounds: Bounds) -> None:
    for topic in {key.topic for key in bounds.starts}:
        for partition, start in kafka.earliest(topic).items():
            key = TopicPartition(topic, partition)
            before = bounds.starts.get(key, start)
            if start != before:
                raise _Moved(f"{key} began at {before}, now at {start}")


# -- notes and names


def _copy_notes(
    job: AuditJob, copy: CopiedTopic, bounds: Bounds, comparison: Comparison, unmarked: int
) -> Iterator[Note]:
    if unmarked:
        yield Note(
            f"{unmarked:,} records of {copy.topic} do not say where they came from: replay and"
            f" mirror put the header {HEADER} on every record",
            differs=True,
        )
    removed_max = sum(bounds.starts.values())
    removed = sum(part.counts.get((What.REMOVED, COPY), 0) for part in comparison.partitions)
    may_be_less = job.allow_lag or _is_compacted(copy.kafka, copy.topic)
    if removed > removed_max and not may_be_less:
        yield Note(
            f"{removed:,} records are not in {copy.topic} any more, but no more than"
            f" {removed_max:,} can have been removed from it by retention",
            differs=True,
        )
    if copy.kafka.setting(copy.topic, "message.timestamp.type") == "LogAppendTime":
        yield Note(
            f"{copy.topic} has message.timestamp.type=LogAppendTime, so its records have other"
            " timestamps than their sources"
        )
    spread = [part.partition for part in comparison.partitions if _is_spread(part)]
    if spread:
        names = ", ".join(map(str, spread))
        yield Note(
            f"the records of {names} lie in several partitions of {copy.topic}: in each of them"
            " their order was compared, between them there is none"
        )


def _is_spread(part: PartitionResult) -> bool:
    return part.right is not None and len(part.right.targets) > 1


def _names(job: AuditJob) -> dict[str, str]:
    names = {BROKER: f"{','.join(job.topics)} at {job.kafka.bootstrap_servers}"}
    if job.archive is not None:
        names[ARCHIVE] = job.archive
    if job.copy is not None:
        names[COPY] = f"{job.copy.topic} at {job.copy.kafka.bootstrap_servers}"
    return names


def _whole(found: Mapping[Place, Digest]) -> dict[TopicPartition, Digest]:
    by_partition: dict[TopicPartition, list[Digest]] = defaultdict(list)
    for place, digest in found.items():
        by_partition[place.topic_partition].append(digest)
    return {key: one for key, parts in by_partition.items() if (one := together(parts))}


def _counts(side: Side) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for place, digest in side.digests.items():
        counts[place.topic] += digest.count
    return counts
