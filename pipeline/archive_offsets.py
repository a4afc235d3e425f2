"""Which offsets a batch archives: those that Spark planned, without those already archived."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from .checkpoints import Checkpoint
from .errors import PipelineError
from .manifest import OffsetRange
from .offsets import EARLIEST, LATEST, Offsets, TopicPartition, parse_offsets

WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


def batch_ranges(checkpoint: Checkpoint) -> list[OffsetRange]:
    """The offset ranges of the newest batch that Spark has planned."""
    # Spark starts partitions that were added since from their first offset.
    before = checkpoint.committed_offsets
    return [
        OffsetRange(topic, partition, before.get(topic, {}).get(partition, 0), end)
        for topic, partitions in sorted(checkpoint.offsets.items())
        for partition, end in sorted(partitions.items())
    ]


def wanted(
    asked: Iterable[OffsetRange], ends: Mapping[TopicPartition, int], *, gaps_allowed: bool
) -> list[OffsetRange]:
    """The ranges of a batch that are not archived yet; empty if they contain no offsets.

    A partition that is new to the archive is included even if it has no offsets, as long as others
    do.  Raises: PipelineError for a gap (unless allowed), or if a partition's end offset went back.
    """
    result = []
    for part in asked:
        if part.end_offset < part.start_offset:
            # With failOnDataLoss=false Spark goes on, and the new records would be skipped.
            raise PipelineError(
                f"{part.topic_partition} ended at offset {part.start_offset} and now at "
                f"{part.end_offset}: it was made anew or lost records; archive it into another "
                "folder"
            )
        archived = ends.get(part.topic_partition)
        if archived is None:
            result.append(part)
            continue
        if archived < part.start_offset and not gaps_allowed:
            raise PipelineError(
                f"the batch goes on at offset {part.start_offset} of {part.topic_partition},"
                f" but the archive ends at {archived}: remove the checkpoint, the archive knows "
                "where to go on"
            )
        start = max(archived, part.start_offset)
        if start < part.end_offset:
            result.append(OffsetRange(part.topic, part.partition, start, part.end_offset))
    return result if any(part.start_offset < part.end_offset for part in result) else []


def check_not_ahead(
    checkpoint: Checkpoint, ends: Mapping[TopicPartition, int], checkpoint_at: str, archive_at: str
) -> None:
    """Refuse a checkpoint whose batches went into another archive.  Raises: PipelineError."""
    if checkpoint.committed_batch_id is None:
        return
    for topic, offsets in sorted(checkpoint.committed_offsets.items()):
        for partition, offset in sorted(offsets.items()):
            key = TopicPartition(topic, partition)
            end = ends.get(key)
            if offset > (0 if end is None else end):
                has = "has none of it" if end is None else f"ends at {end}"
                raise PipelineError(
                    f"the checkpoint {checkpoint_at} is at offset {offset} of {key}, "
                    f"but the archive {archive_at} {has}: it belongs to another archive; leave "
                    "--checkpoint away, or remove it: the archive knows where to go on"
                )


def check_archived_topics(
    archived: Collection[str], names: Collection[str], pattern: str | None, where: str
) -> None:
    """Refuse an archive of topics that this job does not read.  Raises: PipelineError."""
    others = [
        topic
        for topic in sorted(archived)
        if not (re.fullmatch(pattern, topic) if pattern else topic in names)
    ]
    if others:
        asked = f"topics that match {pattern}" if pattern else ", ".join(names)
        raise PipelineError(
            f"{where} is an archive of {', '.join(others)}, and not of {asked} only: give another "
            "folder, or name its topics, too"
        )


def check_deleted_topics(deleted: Sequence[str], *, fail_on_data_loss: bool) -> None:
    """Refuse to go on without deleted topics if `fail_on_data_loss`.  Raises: PipelineError."""
    if deleted and fail_on_data_loss:
        raise PipelineError(
            f"{', '.join(deleted)} was deleted from the cluster, with what was not archived of it; "
            "--no-fail-on-data-loss (Spark's failOnDataLoss=false) goes on with the other topics"
        )


def check_offsets(
    ends: Mapping[TopicPartition, int],
    earliest: Offsets,
    latest: Offsets,
    *,
    fail_on_data_loss: bool,
) -> None:
    """Refuse topics whose offsets do not continue the archive's.  Raises: PipelineError."""
    for (topic, partition), end in sorted(ends.items()):
        if topic not in latest:
            continue
        where = TopicPartition(topic, partition)
        if partition not in latest[topic] or latest[topic][partition] < end:
            there = latest[topic].get(partition, 0)
            raise PipelineError(
                f"the archive holds {where} up to offset {end}, but in the cluster it ends at "
                f"{there}: this is another topic of that name, or it was made anew; archive it into"
                " another folder"
            )
        first = earliest[topic][partition]
        if first > end and fail_on_data_loss:
            raise PipelineError(
                f"offsets {end} to {first - 1} of {where} are no longer in the cluster (retention "
                "removed them) and not yet in the archive; --no-fail-on-data-loss (Spark's "
                f"failOnDataLoss=false) goes on at {first} without them"
            )


def asked_offsets(asked: str, partitions: Mapping[str, int]) -> Offsets:
    """The offsets in --starting-offsets; empty for earliest and latest.

    Raises: PipelineError for anything else but Spark's JSON, or if that names other partitions.
    """
    given = {} if asked in WORDS else _given_offsets(asked)
    for topic, numbers in given.items():
        if topic not in partitions or max(numbers, default=0) >= partitions[topic]:
            raise PipelineError(
                f"--starting-offsets names partitions {', '.join(map(str, numbers))} of {topic}, "
                "and not all of them are read: name partitions of the topics that are archived"
            )
    return given


def starting_offsets(
    asked: str, ends: Mapping[TopicPartition, int], partitions: Mapping[str, int]
) -> str:
    """Spark's startingOffsets for a new checkpoint: where the archive ends, else as asked.

    Raises: PipelineError as `asked_offsets`.
    """
    if asked in WORDS and not ends:
        return asked
    given = asked_offsets(asked, partitions)
    other = WORDS.get(asked, EARLIEST)
    offsets = {
        topic: {
            number: ends.get(TopicPartition(topic, number), given.get(topic, {}).get(number, other))
            for number in range(count)
        }
        for topic, count in partitions.items()
    }
    return json.dumps(offsets)


def _given_offsets(text: str) -> Offsets:
    try:
        return parse_offsets(text)
    except ValueError as error:
        raise PipelineError(
            f"--starting-offsets {text} is neither earliest, latest nor JSON such as "
            '{"T": {"0": 23, "1": -2}} (-2: earliest, -1: latest)'
        ) from error
