"""The segments of one partition, ordered by base offset."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from odradek.protocol.records import BatchHeader

from .segment import Segment
from .walk import walk_headers


class Segments:
    """At least one segment; the last one is the active segment, which takes the appends."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def first_offset(self) -> int:
        """Base offset of the first segment."""
        return self._base_offsets[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return sum(segment.file.size_bytes for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Append a new active segment."""
        assert segment.base_offset > self._base_offsets[-1]
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def floor(self, offset: int) -> Segment:
        """The segment that holds `offset`, or the first one."""
        return self._segments[max(0, bisect_right(self._base_offsets, offset) - 1)]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all after it."""
        return self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]

    def before_offset(self, offset: int) -> list[Segment]:
        """The segments that `from_offset` omits."""
        return self._segments[: max(0, bisect_right(self._base_offsets, offset) - 1)]

    def header_at(self, offset: int) -> BatchHeader | None:
        """Header of the batch with `offset`, or the next one.  Raises: CorruptLog, LogDirFailed."""
        for segment in self.from_offset(offset):
            found = segment.find(offset)
            if found is not None:
                for _, header in walk_headers(segment.file, found[1], segment.size_bytes):
                    return header
        return None

    def after(self, segment: Segment) -> Segment | None:
        """The segment after `segment`, if any."""
        index = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def next_base_offset(self, segment: Segment) -> int | None:
        """Base offset of the segment after `segment`, if any."""
        index = bisect_right(self._base_offsets, segment.base_offset)
        return self._base_offsets[index] if index < len(self._segments) else None

    def cut_after(self, segment: Segment) -> list[Segment]:
        """Remove and return the segments after `segment`, which becomes the active one."""
        index = bisect_right(self._base_offsets, segment.base_offset)
        cut = self._segments[index:]
        del self._segments[index:], self._base_offsets[index:]
        self.active = self._segments[-1]
        return cut

    def cut_before(self, offset: int) -> list[Segment]:
        """Remove and return the segments that end at or before `offset`, never the active one."""
        index = max(0, bisect_right(self._base_offsets, offset) - 1)
        cut = self._segments[:index]
        del self._segments[:index], self._base_offsets[:index]
        return cut

    def remove_active(self) -> None:
        """Remove the active segment; the one before it becomes the active one."""
        assert len(self._segments) > 1
        del self._segments[-1], self._base_offsets[-1]
        self.active = self._segments[-1]

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace some finished segments with one."""
        gone = {segment.base_offset for segment in old}
        assert self.active.base_offset not in gone
        kept = [segment for segment in self._segments if segment.base_offset not in gone]
        self._segments = sorted([*kept, new], key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]

    def replace_all(self, segment: Segment) -> list[Segment]:
        """Replace all segments with one; return the old ones."""
        old = self._segments
        self._segments, self._base_offsets, self.active = [segment], [segment.base_offset], segment
        return old
