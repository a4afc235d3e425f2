"""Limits how often trouble with a peer is logged."""

from typing import Final

REMIND_MS: Final = 30_000


class Trouble:
    """Decides when to log: when trouble begins, every REMIND_MS while it lasts, and when it ends.

    A broker that dies causes several different errors in succession (connection reset, then
    refused, then unreachable): they count as one event.
    """

    def __init__(self) -> None:
        self._said_at_ms: int | None = None

    def begins(self, now_ms: int) -> bool:
        """Note a failure; return whether to log it (again)."""
        if self._said_at_ms is not None and now_ms < self._said_at_ms + REMIND_MS:
            return False
        self._said_at_ms = now_ms
        return True

    def ends(self) -> bool:
        """Note a success; return whether to log the end of trouble."""
        was_said, self._said_at_ms = self._said_at_ms is not None, None
        return was_said
