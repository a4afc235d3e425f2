"""A bounded list of the last requests, with what became of each.

An entry is made when its request is decoded, and completed when its answer is known.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from .recording import Recording

ENTRIES_MAX: Final = 10_000
TOPICS_MAX: Final = 20
TEXT_SIGNS_MAX: Final = 255
"""Of each text.  What clients send must not fill the memory; names of topics are shorter."""
UNANSWERED: Final = "NO_ANSWER"
"""In place of an error, if the connection was closed first."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One request."""

    number: int
    """Counts all requests since the broker's start."""
    at_ms: int
    """Milliseconds since the Unix epoch."""
    broker: int
    api: str
    version: int
    client_id: str | None
    principal: str
    group: str | None
    transactional_id: str | None
    topics: list[str]
    size_bytes: int
    answer_size_bytes: int | None = None
    """None: no whole answer has been given to the connection."""
    error: str | None = None
    """The first error in the answer."""
    faults: list[str]
    """The ids of the rules that acted on it."""
    duration_ms: float | None = None
    """From decoding to the answer; None: it is not answered yet."""
    recording: Recording | None = None
    """For a replay, if the journal keeps that, and there was room."""


class Journal:
    """The last requests, the oldest first."""

    def __init__(self, entries_max: int = ENTRIES_MAX, *, frames_bytes_max: int = 0) -> None:
        self._entries: deque[Entry] = deque()
        self._entries_max = entries_max
        self._frames_bytes_max = frames_bytes_max
        self._recorded: deque[Entry] = deque()
        self._recorded_bytes = 0
        self._count = 0

    @property
    def records(self) -> bool:
        """Whether entries have recordings."""
        return self._frames_bytes_max > 0

    @property
    def last_number(self) -> int:
        """The number of the last entry."""
        return self._count

    def next_number(self) -> int:
        """The number of the next entry."""
        self._count += 1
        return self._count

    def add(self, entry: Entry) -> None:
        """Add an entry, which may be completed later; the oldest makes room."""
        self._entries.append(entry)
        if entry.recording is not None:
            self._recorded.append(entry)
            self._recorded_bytes += len(entry.recording.frame)
        while len(self._entries) > self._entries_max:
            oldest = self._entries.popleft()
            if self._recorded and self._recorded[0] is oldest:
                self._drop_oldest_recording()
        while self._recorded_bytes > self._frames_bytes_max:
            self._drop_oldest_recording()

    def _drop_oldest_recording(self) -> None:
        entry = self._recorded.popleft()
        assert entry.recording is not None
        self._recorded_bytes -= len(entry.recording.frame)
        entry.recording = None

    def clear(self) -> None:
        """Forget all requests."""
        self._entries.clear()
        self._recorded.clear()
        self._recorded_bytes = 0

    def requests(
        self,
        *,
        api: str | None = None,
        client_id: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[Entry]:
        """The entries that fit, at most the last `limit`; texts may have wildcards.

        `after`: only entries with a higher number.
        """
        found = list(self._fitting(api, client_id, after))
        return found if limit is None else found[max(0, len(found) - limit) :]

    def _fitting(self, api: str | None, client_id: str | None, after: int) -> Iterator[Entry]:
        for entry in self._entries:
            if entry.number <= after:
                continue
            if api is not None and not fnmatchcase(entry.api, api):
                continue
            if client_id is None or fnmatchcase(entry.client_id or "", client_id):
                yield entry
