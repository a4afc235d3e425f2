"""The stored state of scrubbing: the progress of each partition, and the damage found.

The state is in a file at the top of each data directory; an unreadable file counts as missing.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.storage.log.checkpoint import TopicPartition
from odradek.storage.log.damage import DamagedRange

STATE_FILE: Final = ".odradek-scrub"  # Kafka ignores such files there
RUBBISH: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
_VERSION: Final = 1


@dataclass(slots=True)
class Pass:
    """The progress of one partition: when its current pass began, and the next offset."""

    begun_ms: int
    next_offset: int = 0
    is_done: bool = False


@dataclass(slots=True)
class State:
    """The state of one data directory."""

    passes: dict[TopicPartition, Pass] = field(default_factory=dict)
    damaged: dict[tuple[str, int, int], tuple[int, tuple[DamagedRange, ...]]] = field(
        default_factory=dict
    )
    """By topic, partition and base offset: the segment's size and its damaged ranges."""


def encode(state: State) -> bytes:
    """Encode the state as JSON."""
    return json.dumps(
        {
            "version": _VERSION,
            "passes": [
                [*key, value.begun_ms, value.next_offset, value.is_done]
                for key, value in state.passes.items()
            ],
            "damaged": [[*key, size, ranges] for key, (size, ranges) in state.damaged.items()],
        }
    ).encode()


def decode(data: bytes) -> State:
    """Decode the state.  Raises: any of `RUBBISH`."""
    stored = json.loads(data)
    if stored["version"] != _VERSION:
        raise ValueError(f"version {stored['version']} is not {_VERSION}")
    return State(
        {
            (str(topic), int(partition)): Pass(int(begun_ms), int(next_offset), bool(is_done))
            for topic, partition, begun_ms, next_offset, is_done in stored["passes"]
        },
        {
            (str(topic), int(partition), int(base)): (
                int(size_bytes),
                _ranges(ranges, base, size_bytes),
            )
            for topic, partition, base, size_bytes, ranges in stored["damaged"]
        },
    )


def _ranges(stored: list[list[Any]], base_offset: int, size_bytes: int) -> tuple[DamagedRange, ...]:
    """Decode ranges; they must be ascending and within the segment, as they hide records.

    Raises: as `decode`.
    """
    ranges = tuple(
        DamagedRange(int(position), int(position_end), int(first), int(end), str(problem))
        for position, position_end, first, end, problem in stored
    )
    position, offset = 0, base_offset
    for found in ranges:
        in_file = position <= found.position < found.position_end <= size_bytes
        if not (in_file and offset <= found.offset_first <= found.offset_end):
            raise ValueError(f"{found} is not within the segment")
        position, offset = found.position_end, found.offset_end
    return ranges
