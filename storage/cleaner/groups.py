"""Decides which adjacent segments to merge: those that together fit into one.

Source: Cleaner.groupSegmentsBySize of Kafka 3.9.
"""

from collections.abc import Mapping, Sequence

from odradek.protocol.primitives import INT32_MAX

from ..log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from .source import CleanSegment


def group_segments(
    segments: Sequence[CleanSegment],
    sizes: Mapping[str, int],
    *,
    segment_bytes: int,
    segment_index_bytes: int,
    end_offset: int,
) -> list[list[CleanSegment]]:
    """Split the segments into groups; `sizes` has the bytes of each file in the directory."""
    groups: list[list[CleanSegment]] = []
    limits = segment_bytes, segment_index_bytes, segment_index_bytes
    totals = 0, 0, 0
    for index, segment in enumerate(segments):
        stem = f"{segment.base_offset:020d}"
        size = (
            segment.size_bytes,
            sizes.get(stem + INDEX_SUFFIX, 0),
            sizes.get(stem + TIME_INDEX_SUFFIX, 0),
        )
        following = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        sums = totals[0] + size[0], totals[1] + size[1], totals[2] + size[2]
        if (
            groups
            and all(total <= limit for total, limit in zip(sums, limits, strict=True))
            # Offsets in indexes are relative to the group's first base offset.
            and (size[0] == 0 or following - 1 - groups[-1][0].base_offset <= INT32_MAX)
        ):
            groups[-1].append(segment)
            totals = sums
        else:
            groups.append([segment])
            totals = size
    return groups
