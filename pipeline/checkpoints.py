"""Reads the checkpoint of a streaming query: its topics, offsets and newest batch.

Spark writes `offsets/N` when it has planned batch N and `commits/N` when that has ended.  If the
newest planned batch has not ended, a start runs it again, from where the one before ended.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .errors import PipelineError
from .files import Folder
from .kafka import Kafka
from .offsets import Offsets, TopicPartition, offsets_of

State = Literal["ok", "gone", "beyond the end", "no such partition"]

VERSION: Final = "v1"
NOTHING: Final = "-"
"""Stands for a source without a known offset."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The newest batch of a checkpoint."""

    batch_id: int
    """The newest batch that was planned."""
    committed_batch_id: int | None
    """The newest batch that ended."""
    offsets: Offsets
    """Where the newest planned batch ends: topic, partition, offset (exclusive)."""
    committed_offsets: Offsets
    """Where the newest ended batch ends, and a start resumes; the query's own start if none."""
    watermark_ms: int | None


@dataclass(frozen=True, slots=True)
class OffsetLogEntry:
    """What Spark writes about a batch before it runs it."""

    offsets: Offsets
    """Where the batch ends: topic, partition, offset (exclusive)."""
    watermark_ms: int
    """Of the records before the batch; 0: none."""


@dataclass(frozen=True, slots=True)
class Position:
    """A partition's position in a checkpoint, compared with its log."""

    topic: str
    partition: int
    offset: int
    """The next offset that a start reads."""
    start: int | None
    """The log start offset; None: the partition does not exist."""
    end: int | None
    state: State
    lost: int
    """How many offsets retention removed before they were read."""

    @property
    def lag(self) -> int | None:
        """How many offsets are left to read; None: the partition does not exist."""
        if self.start is None or self.end is None:
            return None
        return max(0, self.end - max(self.offset, self.start))


def read_checkpoint(files: Folder) -> Checkpoint | None:
    """Read a checkpoint folder; None: no batch was planned yet.  Raises: PipelineError."""
    planned = planned_batches(files)
    if not planned:
        if not files.exists("offsets") and _is_of_others(files):
            raise PipelineError(
                f"{files.uri} is no checkpoint: it has no folder `offsets`; give the job's"
                f" checkpoint folder"
            )
        return None
    ended = _batches(files, "commits")
    newest = read_offset_log(files, planned[-1])
    committed = next((batch for batch in reversed(ended) if batch in planned), None)
    if committed is None:
        committed_offsets = read_initial_offsets(files)
    else:
        committed_offsets = read_offset_log(files, committed).offsets
    return Checkpoint(
        planned[-1], committed, newest.offsets, committed_offsets, newest.watermark_ms or None
    )


def planned_batches(files: Folder) -> list[int]:
    """The planned batches of a checkpoint, in order."""
    return _batches(files, "offsets")


def read_offset_log(files: Folder, batch_id: int) -> OffsetLogEntry:
    """The offset log entry of a planned batch.  Raises: PipelineError."""
    where = f"{files.uri}/offsets/{batch_id}"
    lines = files.read(f"offsets/{batch_id}").decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != VERSION:
        raise PipelineError(
            f"{where} is not as Spark 3.5 and 4.0 write it ({(lines or ['empty'])[0]!r}):"
            f" if it is damaged, begin with another checkpoint (an archive goes on without any)"
        )
    merged: Offsets = {}
    try:
        metadata = json.loads(lines[1]) if lines[1].strip() else {}
        for line in lines[2:]:
            if line != NOTHING:
                _merge(merged, offsets_of(json.loads(line)))
    except ValueError as error:
        raise _damaged(where, error) from error
    return OffsetLogEntry(merged, metadata.get("batchWatermarkMs") or 0)


def read_initial_offsets(files: Folder) -> Offsets:
    """Where the query began, as each source noted at its first start.  Raises: PipelineError."""
    merged: Offsets = {}
    for file in files.list("sources", recursive=True):
        if not file.path.endswith("/0"):
            continue
        where = f"{files.uri}/{file.path}"
        # Spark 2.1 expected a leading zero byte, which is still written.
        lines = files.read(file.path).lstrip(b"\0").decode(errors="replace").splitlines()
        if not lines:  # sources write no empty files: a power cut has left it
            raise _damaged(where, "it is empty")
        if len(lines) == 2 and lines[0] == VERSION:
            try:
                _merge(merged, offsets_of(json.loads(lines[1])))
            except ValueError as error:
                raise _damaged(where, error) from error
    return merged


def _damaged(where: str, why: object) -> PipelineError:
    return PipelineError(
        f"{where} is damaged ({why}): begin with another checkpoint (an archive goes on without"
        " any)"
    )


def check_topics(checkpoint: Checkpoint, topics: Sequence[str], where: str) -> None:
    """Refuse a checkpoint that belongs to other topics.  Raises: PipelineError.

    Additional topics are fine: they are read from their starting offsets.
    """
    others = sorted(checkpoint.offsets.keys() - set(topics))
    if others:
        raise PipelineError(
            f"the checkpoint {where} is of topic {', '.join(others)}, which this job does not"
            f" read: give this job a checkpoint of its own, or the same topics as before"
        )


def deleted_topics(
    planned: Collection[str], names: Collection[str], pattern: str | None
) -> list[str]:
    """Topics of a checkpoint that match the pattern and no longer exist."""
    missing = sorted(set(planned) - set(names))
    return [topic for topic in missing if pattern and re.fullmatch(pattern, topic)]


def check_start(
    files: Folder,
    kafka: Kafka,
    topics: Sequence[str],
    *,
    pattern: str | None = None,
    fail_on_data_loss: bool = True,
) -> None:
    """Refuse to start a query whose checkpoint would stop it.  Raises: PipelineError.

    That is one of other topics, or one with records that are gone before they were read, which
    Spark's failOnDataLoss would report later and less clearly.  `topics` exist; topics that match
    `pattern` may have been deleted.
    """
    checkpoint = read_checkpoint(files)
    if checkpoint is None:
        return
    check_topics(
        checkpoint, [*topics, *deleted_topics(checkpoint.offsets, topics, pattern)], files.uri
    )
    if not fail_on_data_loss:
        return
    there = checkpoint.committed_offsets.keys() & set(topics)
    starts = {topic: kafka.earliest(topic) for topic in there}
    ends = {topic: kafka.latest(topic) for topic in there}
    for position in positions(checkpoint, starts, ends):
        if position.state != "ok":
            raise PipelineError(_loss(position, files.uri, kafka.bootstrap_servers))


def _loss(position: Position, where: str, servers: str) -> str:
    name = TopicPartition(position.topic, position.partition)
    if position.state == "gone":
        what = (
            f"{position.lost} offsets of {name} from {position.offset} on were removed (retention)"
            f" before the job read them"
        )
    elif position.state == "beyond the end":
        what = (
            f"{name} ends at {position.end}, before the {position.offset} that the checkpoint"
            f" {where} goes on at: the topic was made anew, or lost records"
        )
    else:
        what = f"{name}, which the checkpoint {where} reads, is not there any more"
    return (
        f"{what}; failOnDataLoss stops the job so that nobody misses records unknowingly:"
        f" look at `odradek pipeline checkpoint {where} -b {servers}`, then go on without them"
        f" by --no-fail-on-data-loss, or begin with another checkpoint"
    )


def positions(checkpoint: Checkpoint, starts: Offsets, ends: Offsets) -> list[Position]:
    """Each partition of the checkpoint, in order, compared with its log's start and end."""
    return [
        _position(topic, partition, offset, starts.get(topic, {}), ends.get(topic, {}))
        for topic, partitions in sorted(checkpoint.committed_offsets.items())
        for partition, offset in sorted(partitions.items())
    ]


def _position(
    topic: str, partition: int, offset: int, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Position:
    start, end = starts.get(partition), ends.get(partition)
    state: State = "ok"
    lost = 0
    if start is None or end is None:
        state = "no such partition"
    elif offset < start:
        state, lost = "gone", start - offset
    elif offset > end:
        state = "beyond the end"
    return Position(topic, partition, offset, start, end, state, lost)


def _is_of_others(files: Folder) -> bool:
    """Whether a folder holds files that are not Spark's, which writes only `metadata` at first."""
    names = (file.path.rpartition("/")[2] for file in files.list(recursive=True))
    return any(name != "metadata" and not name.startswith(".") for name in names)


def _batches(files: Folder, folder: str) -> list[int]:
    names = (file.path.rpartition("/")[2] for file in files.list(folder))
    return sorted(int(name) for name in names if name.isdigit())


def _merge(merged: Offsets, more: Offsets) -> None:
    """Add offsets; if two sources read the same partition, the lower offset counts."""
    for topic, partitions in more.items():
        there = merged.setdefault(topic, {})
        for partition, offset in partitions.items():
            there[partition] = min(offset, there.get(partition, offset))
