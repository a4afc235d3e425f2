"""Key -> offset of the newest record with that key, within a memory bound."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import repeat
from operator import gt
from typing import Final

ENTRY_BYTES: Final = 208
"""What an entry takes at most: 80 for a key of 32 bytes, 32 for the offset, 8 to sort it, and the
rest for its place in the dict while that grows, when the old and the new one are both there."""

NO_OFFSET: Final = -1


class OffsetMap:
    """The last offset of each key in the dirty part, and up to where that has been read."""

    __slots__ = ("_offsets", "_sorted", "entries_max", "latest_offset", "start_offset")

    def __init__(self, map_bytes: int, load_factor: float, start_offset: int) -> None:
        self.entries_max = max(1, int(map_bytes * load_factor) // ENTRY_BYTES)
        self.latest_offset = NO_OFFSET
        """Nothing above this offset is in the map; records there stay whatever their key."""
        self.start_offset = start_offset
        """Nor is anything below this one."""
        self._offsets: dict[bytes | None, int] = {}
        self._sorted: list[int] | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Take the records of a batch from the start offset on; false if the map is full before.

        What fits has been taken then, as `latest_offset` says.
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
            # Full is full, for a known key too: so it is in Kafka.
            if len(known) >= self.entries_max:
                return False
            known[key] = offset
            self.latest_offset = offset
        return True

    def covers(self, first_offset: int, last_offset: int) -> bool:
        """Whether all keys of this range, of records that count, have been put."""
        return self.start_offset <= first_offset and last_offset <= self.latest_offset

    def newest_between(self, first_offset: int, last_offset: int) -> list[int]:
        """Of a covered range the offsets that have the newest record of a key; rising."""
        if self._sorted is None:
            self._sorted = sorted(self._offsets.values())
        newest = self._sorted
        start = bisect_left(newest, first_offset)
        return newest[start : bisect_right(newest, last_offset, start)]

    def superseded(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[bool]:
        """For each record whether a newer one with its key is known."""
        return list(map(gt, map(self._offsets.get, keys, repeat(NO_OFFSET)), offsets))
