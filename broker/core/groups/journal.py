"""What happened to a group and why, for people who ask why it rebalances.

Bounded, and kept in memory only: it explains the recent past, it is no audit.
"""

from collections import deque
from typing import Final, NamedTuple

ENTRIES_MAX: Final = 200
TEXT_MAX: Final = 500


class JournalEntry(NamedTuple):
    """One thing that happened."""

    wall_ms: int
    event: str
    """A word: joined, left, timed-out, rebalance, assigned, fenced, loaded, …"""
    member_id: str
    """Empty if it was not about a single member."""
    reason: str
    """A sentence for people, with the client's own reason if it gave one."""


class Journal:
    """The last things that happened to one group."""

    __slots__ = ("_entries", "wall_ms")

    def __init__(self) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=ENTRIES_MAX)
        self.wall_ms = 0
        """The wall clock; set by the shard before each call into the group."""

    def note(self, event: str, reason: str, member_id: str = "") -> None:
        """Keep an entry; the oldest goes when there are too many."""
        self._entries.append(
            JournalEntry(self.wall_ms, event, member_id[:TEXT_MAX], reason[:TEXT_MAX])
        )

    def entries(self) -> list[JournalEntry]:
        """The oldest first."""
        return list(self._entries)
