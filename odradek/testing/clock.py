"""The clock of the brokers under test: `broker.clock.advance("60s")`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from odradek.durations import Duration, seconds_of

from .door import AdminClient, running


class Clock:
    """Moves the time by which brokers expire sessions, transactions, records, quotas and so on.

    It moves for clients in all processes, but not what they do by their own clocks: a consumer
    whose session has expired joins its group again. Brokers stay alive and replicas in sync,
    whatever the clock says. Brokers that are started again begin with the machine's time.
    """

    def __init__(self, admins: Iterable[AdminClient]) -> None:
        """`admins`: one of each process."""
        self._admins = admins

    def __repr__(self) -> str:
        return "<Clock>"

    def advance(self, by: Duration, /) -> None:
        """Move on; return once everything that became due has been called.

        What is due begins to count anew from the new time, so a chain of two timeouts needs two
        calls. Raises: ValueError, AdminError.
        """
        seconds = seconds_of(by)
        self._post("advance", by=seconds)

    def freeze(self) -> None:
        """Let time stand still, except for `advance`, until `resume`.  Raises: AdminError."""
        self._post("freeze")

    def resume(self) -> None:
        """Let time pass again, from where it stood.  Raises: AdminError."""
        self._post("resume")

    @property
    def is_frozen(self) -> bool:
        """Whether time stands still.  Raises: AdminError."""
        return bool(self._state["frozen"])

    @property
    def now(self) -> datetime:
        """The brokers' wall clock.  Raises: AdminError."""
        return datetime.fromtimestamp(self._state["wall_ms"] / 1000, UTC)

    @property
    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = running(self._admins)[0].get("clock")
        return state

    def _post(self, action: str, **fields: float) -> None:
        for admin in running(self._admins):
            admin.post("clock", action, **fields)
