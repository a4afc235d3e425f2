"""Replicas' logs compared batch by batch, byte for byte, as they lie in the files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

# A batch begins with its base offset and the size of what follows; its last offset's distance from
# the base stands behind leader epoch, magic, checksum and attributes.
START: Final = Struct(">qi")
DISTANCE: Final = Struct(">i")
DISTANCE_AT: Final = 23
SHOWN: Final = 3


class Batch(NamedTuple):
    """Offsets of the first and the last record, and all bytes."""

    first: int
    last: int
    data: bytes


def batches(directory: Path) -> Iterator[Batch]:
    """All whole batches in a partition's directory; a torn one ends its segment."""
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + DISTANCE_AT + DISTANCE.size <= len(data):
            first, rest_bytes = START.unpack_from(data, position)
            end = position + START.size + rest_bytes
            if end > len(data):
                break
            (distance,) = DISTANCE.unpack_from(data, position + DISTANCE_AT)
            yield Batch(first, first + distance, data[position:end])
            position = end


def differences(replicas: Mapping[str, Path], end: int) -> list[str]:
    """Where logs are not the same below `end` (exclusive), the first few places of each pair.

    Below the latest log start there is nothing to compare.
    """
    logs = {name: list(batches(path)) for name, path in replicas.items()}
    start = max((log[0].first for log in logs.values() if log), default=0)
    held = {
        name: [batch for batch in log if start <= batch.first and batch.last < end]
        for name, log in logs.items()
    }
    found = []
    for name, log in held.items():
        reached = log[-1].last + 1 if log else start
        if reached < end:
            found.append(f"{name} ends at {reached}, not {end}")
    (first, expected), *others = held.items()
    for name, log in others:
        here = {batch.first: batch for batch in log}
        there = {batch.first: batch for batch in expected}
        wrong = [offset for offset in sorted(here | there) if here.get(offset) != there.get(offset)]
        found += [f"{first} and {name} differ at offset {offset}" for offset in wrong[:SHOWN]]
    return found
