"""Key -> offset of the newest record with that key, within a memory bound."""

from collections.abc import Sequence
from itertools import repeat
from operator import gt
from typing import Final

from .scan import RecordScan

ENTRY_BYTES: Final = 192
"""What an entry takes at most: 80 for a key of 32 bytes, 32 for the offset, and the rest for its
place in the dict, which has room for two keys for each that it holds when it has just grown."""

NO_OFFSET: Final = -1


class OffsetMap:
    """The last offset of each key in the dirty part, and up to where that has been read."""

    __slots__ = ("_offsets", "entries_max", "latest_offset")

    def __init__(self, map_bytes: int, load_factor: float) -> None:
        self.entries_max = max(1, int(map_bytes * load_factor) // ENTRY_BYTES)
        self.latest_offset = NO_OFFSET
        """Nothing above this offset is in the map; records there stay whatever their key."""
        self._offsets: dict[bytes | None, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, scan: RecordScan, start_offset: int) -> bool:
        """Take the records of a batch from `start_offset` on; false if the map is full before.

        What fits has been taken then, as `latest_offset` says.
        """
        offsets = self._offsets
        whole = scan.offsets and scan.offsets[0] >= start_offset and not scan.has_null_keys
        if whole and len(offsets) + len(scan.keys) <= self.entries_max:
            offsets.update(zip(scan.keys, scan.offsets, strict=True))
            self.latest_offset = scan.offsets[-1]
            return True
        for key, offset in zip(scan.keys, scan.offsets, strict=True):
            if key is None or offset < start_offset:
                continue
            # Full is full, for a known key too: so it is in Kafka.
            if len(offsets) >= self.entries_max:
                return False
            offsets[key] = offset
            self.latest_offset = offset
        return True

    def superseded(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[bool]:
        """For each record whether a newer one with its key is known."""
        return list(map(gt, map(self._offsets.get, keys, repeat(NO_OFFSET)), offsets))
