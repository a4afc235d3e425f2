"""The events of a group and their reasons, to explain why it rebalances.

Bounded, and in memory only: it explains recent events and is not an audit log.
"""

from collections import deque
from typing import Final, NamedTuple

ENTRIES_MAX: Final = 200
TEXT_MAX: Final = 500


class JournalEntry(NamedTuple):
    """One event of a group."""

    wall_ms: int
    event: str
    """One word: joined, left, timed-out, rebalance, assigned, fenced, loaded, …"""
    member_id: str
    """Empty if the event does not concern a single member."""
    reason: str
    """An explanation for people, with the client's reason if it gave one."""


class Journal:
    """The latest events of one group."""

    __slots__ = ("_entries", "wall_ms")

    def __init__(self) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=ENTRIES_MAX)
        self.wall_ms = 0
        """The wall-clock time; the shard sets it before each call into the group."""

    def note(self, event: str, reason: str, member_id: str = "") -> None:
        """Add an entry; the oldest is dropped when there are too many."""
        self._entries.append(
            JournalEntry(self.wall_ms, event, member_id[:TEXT_MAX], reason[:TEXT_MAX])
        )

    def entries(self) -> list[JournalEntry]:
        """All entries, the oldest first."""
        return list(self._entries)
