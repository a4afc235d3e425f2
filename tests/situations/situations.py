"""The table of situations, `situations.json`, and what is seen of a client in one."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from odradek.testing import Broker
from odradek.testing.door import AdminError

from .programs import Program

TABLE: Final = Path(__file__).parent / "situations.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a client did."""

    outcome: str
    """`done`, with the values that it has read, or an error."""
    records: int
    """How many are in the topic that a reader of committed records sees."""
    committed: int | None
    """The offset of the group `g`."""
    unused: list[str]
    """Rules that never acted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A row of the table."""

    name: str
    deed: str
    rules: list[dict[str, Any]]
    seen: str
    records: int
    instead: dict[str, list[Any]] = field(default_factory=dict)
    """The outcome and the number of records of clients that do something else."""

    def expected(self, client: str) -> Seen:
        outcome, records = self.instead.get(client, [self.seen, self.records])
        is_read = self.deed == "consume" and outcome == "done"
        return Seen(
            outcome="done 0 1 2" if is_read else outcome,
            records=records,
            committed=3 if is_read else None,
            unused=[],
        )

    def try_on(self, program: Program, broker: Broker) -> Seen:
        """Let a client do its deed in this situation, at an empty broker."""
        broker.reset()
        broker.topics.create("t")
        # Before the first request of the deed, that it need not wait for internal topics.
        broker.coordinator("g")
        broker.coordinator("x", of="transaction")
        if self.deed == "consume":
            for value in (b"0", b"1", b"2"):
                broker.produce("t", value)
        outcome = program.outcome(self.deed, [json.dumps(rule) for rule in self.rules])
        return Seen(
            unused=broker.faults.end(),
            outcome=outcome,
            records=len(broker.records("t", isolation="read_committed")),
            committed=_committed(broker),
        )


def _committed(broker: Broker) -> int | None:
    try:
        return broker.groups["g"].offsets.get(("t", 0))
    except (AdminError, KeyError):
        return None


def situations() -> list[Situation]:
    return [Situation(**row) for row in json.loads(TABLE.read_text())]
