"""The journal: what clients asked the brokers under test, and what became of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .door import AdminClient, running
from .errors import BrokerFailed

REQUESTS_MAX: Final = 10_000
"""As many as the journal has."""

SHOWN_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as it was when the journal was read."""

    number: int
    """Counts the requests to a process."""
    at_ms: int
    """Milliseconds since the Unix epoch."""
    broker: int
    api: str
    version: int
    client_id: str | None
    principal: str
    group: str | None
    transactional_id: str | None
    topics: Sequence[str]
    size_bytes: int
    """Of the request; both sizes are without the four bytes in front."""
    error: str | None
    """The first error in the answer; NO_ANSWER if the connection was closed instead."""
    faults: Sequence[str]
    """The ids of the rules that acted on it."""
    duration_ms: float | None
    """Until the answer was known; None: it is not known yet."""
    answer_size_bytes: int | None = None
    """None: no whole answer was given to the connection (yet, or by acks=0 or a rule never)."""
    recording: Mapping[str, Any] | None = None
    """What `odradek replay` needs, in a file of `Journal.save`."""

    def __str__(self) -> str:
        named = [("client_id", self.client_id), ("group", self.group)]
        named += [("transactional_id", self.transactional_id), ("topics", ",".join(self.topics))]
        shown = "".join(f" {name}={value}" for name, value in named if value)
        took = "-" if self.duration_ms is None else f"{self.duration_ms:.1f}"
        end = f" error={self.error}" if self.error else ""
        end += f" faults={','.join(self.faults)}" if self.faults else ""
        return f"{self.api} v{self.version}{shown} broker={self.broker} ms={took}{end}"


class Journal:
    """What clients have asked; without the requests of the fixture and of brokers."""

    def __init__(self, admins: Iterable[AdminClient], *, after: int = 0) -> None:
        """`admins`: of the processes that run; usually there is only one.

        Requests up to the number `after` are left out: they are of an earlier test.
        """
        self._admins = admins
        self._after = after

    def requests(
        self, *, api: str | None = None, client_id: str | None = None, limit: int = 1000
    ) -> list[Request]:
        """The last requests that fit, the oldest first; texts may have wildcards.

        Raises: BrokerFailed.
        """
        found: list[Any] = []
        for admin in running(self._admins):
            answer = admin.get("journal", api=api, client_id=client_id, limit=limit)
            found += [
                Request(**each) for each in answer["requests"] if each["number"] > self._after
            ]
        found.sort(key=lambda request: (request.at_ms, request.number))
        return found[-limit:]

    def assert_requests(
        self, api: str | None = None, *, client_id: str | None = None, count: int | None = None
    ) -> list[Request]:
        """Check that there were so many requests that fit, or any; return them.

        Raises: AssertionError, which shows what came instead.
        """
        __tracebackhide__ = True
        found = self.requests(api=api, client_id=client_id)
        if len(found) == count or (count is None and found):
            return found
        what = " ".join(filter(None, [api, client_id and f"of {client_id}"])) or "requests"
        wanted = "any" if count is None else count
        others = self.requests(limit=SHOWN_MAX)
        shown = "\n".join(f"  {each}" for each in others) or "  nothing"
        raise AssertionError(f"{what}: {len(found)}, not {wanted}. What came:\n{shown}")

    def save(self, path: str | Path) -> int:
        """Write the requests to a file for `odradek replay`, a line each; returns how many.

        The brokers must have the setting odradek.journal.frames.bytes, and share a process.
        Raises: BrokerFailed, OSError.
        """
        admins = list(self._admins)
        if len(admins) != 1:
            raise BrokerFailed("a journal can be saved only if one process has all brokers")
        answer = admins[0].get("journal", after=self._after, limit=REQUESTS_MAX, recordings=True)
        lines = [f"{json.dumps(each)}\n" for each in answer["requests"]]
        Path(path).write_text("".join(lines))
        return len(lines)

    def clear(self) -> None:
        """Forget all requests."""
        for admin in running(self._admins):
            admin.delete("journal")
