"""The offset map of a cleaning: key -> offset of its newest record, with a memory limit."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import repeat
from operator import gt
from typing import Final

ENTRY_BYTES: Final = 208
"""The most that an entry takes: 80 for a key of 32 bytes, 32 for the offset, 8 to sort it, and the
rest for its slot in the dict while that grows, when the old and the new table both exist."""

NO_OFFSET: Final = -1


class OffsetMap:
    """The last offset of each key in the dirty part, and up to which offset that was read."""

    __slots__ = ("_offsets", "_sorted", "entries_max", "latest_offset", "start_offset")

    def __init__(self, map_bytes: int, load_factor: float, start_offset: int) -> None:
        self.entries_max = max(1, int(map_bytes * load_factor) // ENTRY_BYTES)
        self.latest_offset = NO_OFFSET
        """Data records above this offset are not in the map, and are kept unless aborted."""
        self.start_offset = start_offset
        """Records below this offset are not in the map."""
        self._offsets: dict[bytes | None, int] = {}
        self._sorted: list[int] | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Add a batch's records, except those below the start offset; False if the map is full.

        The records that fit are then in the map, up to `latest_offset`.
        """
        known = self._offsets
        if (
            offsets
            and offsets[0] >= self.start_offset
            and len(known) + len(keys) <= self.entries_max
            and None not in keys
        ):
            known.update(zip(keys, offsets, strict=True))
            self.latest_offset = offsets[-1]
            return True
        for key, offset in zip(keys, offsets, strict=True):
            if key is None or offset < self.start_offset:
                continue
            # A full map does not even take known keys, as in Kafka.
            if len(known) >= self.entries_max:
                return False
            known[key] = offset
            self.latest_offset = offset
        return True

    def covers(self, first_offset: int, last_offset: int) -> bool:
        """Whether the keys of all data records in this range, except aborted ones, were added."""
        return self.start_offset <= first_offset and last_offset <= self.latest_offset

    def newest_between(self, first_offset: int, last_offset: int) -> list[int]:
        """The offsets in a covered range with the newest record of a key; rising."""
        if self._sorted is None:
            self._sorted = sorted(self._offsets.values())
        newest = self._sorted
        start = bisect_left(newest, first_offset)
        return newest[start : bisect_right(newest, last_offset, start)]

    def superseded(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[bool]:
        """For each record, whether the map has a newer one with its key."""
        return list(map(gt, map(self._offsets.get, keys, repeat(NO_OFFSET)), offsets))
