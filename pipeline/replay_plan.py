"""Which offsets a replay copies, and in which chunks."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .errors import PipelineError
from .manifest import OffsetRange
from .offsets import Span, Spans

CHUNK_RECORDS: Final = 250_000
CHUNK_S: Final = 20
"""About how long a chunk takes under a rate limit; a graceful stop waits for it to end."""

_OFFSETS: Final = re.compile(r"\d+|\d+:\d+(,\d+:\d+)*")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for; None and empty mean all."""

    starting_offsets: str | None = None
    ending_offsets: str | None = None
    starting_ms: int | None = None
    ending_ms: int | None = None
    """Exclusive."""


EVERYTHING: Final = Wanted()


def _partition_offsets(text: str | None, option: str) -> int | dict[int, int] | None:
    """`100` for all partitions or `0:100,2:50` for some.  Raises: PipelineError."""
    if text is None:
        return None
    if not _OFFSETS.fullmatch(text):
        raise PipelineError(
            f"{option} {text!r} is not understood: give one offset for all partitions (100), or"
            f" PARTITION:OFFSET,… (0:100,2:50)"
        )
    if ":" not in text:
        return int(text)
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


def spans_of(ranges: Sequence[OffsetRange], wanted: Wanted) -> dict[int, Span]:
    """The wanted part of one topic's archived ranges, by partition.  Raises: PipelineError."""
    held: dict[int, Span] = {}
    for asked in ranges:
        start, end = held.get(asked.partition, (asked.start_offset, asked.end_offset))
        held[asked.partition] = (min(start, asked.start_offset), max(end, asked.end_offset))
    starts = _bounds(wanted.starting_offsets, "--starting-offsets", held, lower=True)
    ends = _bounds(wanted.ending_offsets, "--ending-offsets", held, lower=False)
    spans = {p: (starts[p], ends[p]) for p in sorted(held)}
    if any(start > end for start, end in spans.values()):
        raise PipelineError("--starting-offsets lie behind --ending-offsets: exchange them")
    return spans


def _bounds(text: str | None, option: str, held: Spans, *, lower: bool) -> dict[int, int]:
    asked = _partition_offsets(text, option)
    defaults = {p: span[0 if lower else 1] for p, span in held.items()}
    if asked is None:
        return defaults
    if isinstance(asked, int):
        # A single offset for all partitions need not exist in each of them.
        return {p: min(max(asked, start), end) for p, (start, end) in held.items()}
    for partition, offset in asked.items():
        start, end = held.get(partition, (0, -1))
        if not start <= offset <= end:
            there = f"offsets {start} to {end}" if end >= 0 else "nothing"
            raise PipelineError(
                f"{option} asks for offset {offset} of partition {partition}, of which the archive"
                f" holds {there}: ask for what is there"
            )
    return {**defaults, **asked}


def chunks(spans: Spans, done: Mapping[int, int], size: int) -> Iterator[dict[int, Span]]:
    """What remains to copy, in pieces of about `size` offsets.

    All partitions advance together, so that the target gets records roughly in order of time.
    """
    left = {p: (max(start, done.get(p, 0)), end) for p, (start, end) in spans.items()}
    left = {p: (start, end) for p, (start, end) in left.items() if start < end}
    total = sum(end - start for start, end in left.values())
    count = -(-total // size)
    for number in range(count):
        yield {
            p: (
                start + (end - start) * number // count,
                start + (end - start) * (number + 1) // count,
            )
            for p, (start, end) in left.items()
        }


def shares(chunk: Spans, tasks: int) -> list[list[int]]:
    """The partitions of a chunk divided among tasks, with about the same number of offsets each."""
    result: list[list[int]] = [[] for _ in range(min(tasks, len(chunk)))]
    loads = [0] * len(result)
    for partition in sorted(chunk, key=lambda p: chunk[p][0] - chunk[p][1]):
        lightest = loads.index(min(loads))
        result[lightest].append(partition)
        loads[lightest] += chunk[partition][1] - chunk[partition][0]
    return result


def rates(chunk: Spans, tasks: Sequence[Sequence[int]], rate: float | None) -> dict[int, float]:
    """Records per second for the task of each partition, so that all tasks end together."""
    if rate is None:
        return {}
    sizes = {p: end - start for p, (start, end) in chunk.items()}
    total = sum(sizes.values())
    return {
        p: max(rate * sum(sizes[q] for q in task) / total, 1e-3) for task in tasks for p in task
    }


def chunk_size(rate: float | None) -> int:
    """How many offsets to copy between two commits of progress."""
    return CHUNK_RECORDS if rate is None else max(1, min(CHUNK_RECORDS, int(rate * CHUNK_S)))


def offsets_per_record(ranges: Iterable[OffsetRange], records: int) -> float:
    """1, or more if compaction, markers or aborted transactions left offsets without a record."""
    offsets = sum(asked.end_offset - asked.start_offset for asked in ranges)
    return max(1.0, offsets / max(1, records))
