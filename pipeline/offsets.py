"""Offsets by topic and partition, in the JSON of Spark's Kafka source."""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

Offsets = dict[str, dict[int, int]]

Span = tuple[int, int]
"""First offset, and the end offset (exclusive)."""
Spans = Mapping[int, Span]
"""By partition."""

LATEST: Final = -1
EARLIEST: Final = -2
"""Placeholders for offsets in Spark's JSON."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_offsets(text: str) -> Offsets:
    """Parse JSON such as {"topic": {"0": 23}}.  Raises: ValueError for anything else."""
    document = json.loads(text)
    if not _is_by_topic(document):
        raise ValueError('offsets are written as {"topic": {"0": 23}}')
    try:
        return offsets_of(document)
    except TypeError as error:
        raise ValueError(str(error)) from error


def offsets_of(document: object) -> Offsets:
    """The offsets in such JSON that is already parsed; none for a source other than Kafka's."""
    if not isinstance(document, dict) or not _is_by_topic(document):
        return {}
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in document.items()
    }


def _is_by_topic(document: object) -> bool:
    return isinstance(document, dict) and all(isinstance(v, dict) for v in document.values())
