"""The events of a group or a transactional id and their reasons, to explain what it does.

Bounded, and in memory only: it explains recent events and is not an audit log.
"""

from collections import Counter
from typing import Final, NamedTuple

ENTRIES_MAX: Final = 200
TEXT_MAX: Final = 500


class JournalEntry(NamedTuple):
    """One event."""

    wall_ms: int
    event: str
    """One word: joined, left, timed-out, rebalance, assigned, fenced, loaded, …"""
    who: str
    """The group's member, or the client that asked; empty if the event concerns no single one."""
    reason: str
    """An explanation for people, with the client's reason if it gave one."""


class Journal:
    """The latest events of one group or one transactional id."""

    __slots__ = ("_entries", "_entries_max", "wall_ms")

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._entries: list[JournalEntry] = []
        self.wall_ms = 0
        """The wall-clock time; the shard sets it before each call that may note something."""

    def note(self, event: str, reason: str, who: str = "") -> None:
        """Add an entry.

        If there are too many, the oldest one of the most frequent event is dropped: what a client
        repeats all the time does not displace what happens rarely.
        """
        entries = self._entries
        entries.append(JournalEntry(self.wall_ms, event, who[:TEXT_MAX], reason[:TEXT_MAX]))
        if len(entries) > self._entries_max:
            counts = Counter(entry.event for entry in entries)
            most = max(counts.values())
            crowd = (index for index, entry in enumerate(entries) if counts[entry.event] == most)
            del entries[next(crowd)]

    def note_once(self, event: str, reason: str, who: str = "") -> None:
        """Add an entry, unless it only repeats the last one."""
        last = self._entries[-1][1:] if self._entries else ()
        if last != (event, who[:TEXT_MAX], reason[:TEXT_MAX]):
            self.note(event, reason, who)

    def entries(self) -> list[JournalEntry]:
        """All entries, the oldest first."""
        return list(self._entries)
