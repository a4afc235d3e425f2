"""When a peer can't be asked: what is said of it, and how often."""

from typing import Final

REMIND_MS: Final = 30_000


class Trouble:
    """A line when trouble begins, when it is over, and now and then in between.

    A broker that dies is reported in several ways one after the other (connections reset, then
    refused, then nobody there): that is one event.
    """

    def __init__(self) -> None:
        self._said_at_ms: int | None = None

    def begins(self, now_ms: int) -> bool:
        """It goes wrong; whether that is to be said (again)."""
        if self._said_at_ms is not None and now_ms < self._said_at_ms + REMIND_MS:
            return False
        self._said_at_ms = now_ms
        return True

    def ends(self) -> bool:
        """All is well; whether that is to be said."""
        was_said, self._said_at_ms = self._said_at_ms is not None, None
        return was_said
