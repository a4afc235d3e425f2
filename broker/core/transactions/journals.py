"""The journals of the transactional ids that had an event last.

There may be very many ids, and a client can create them. So a broker keeps a limited number of
journals, and only of ids that exist or have expired.
"""

from typing import Final

from ..journal import Journal, JournalEntry
from . import notes
from .notes import Note
from .transactional_id import Transaction

JOURNALS_MAX: Final = 1_000
ENTRIES_MAX: Final = 50


class Journals:
    """The journals of a broker, by partition of `__transaction_state` and id."""

    def __init__(self, journals_max: int = JOURNALS_MAX) -> None:
        self._journals_max = journals_max
        self._journals: dict[tuple[int, str], Journal] = {}
        """In the order of their last events."""

    def __len__(self) -> int:
        return len(self._journals)

    def get(self, partition: int, transactional_id: str) -> Journal | None:
        """The journal of an id, if it is kept."""
        return self._journals.get((partition, transactional_id))

    def keep(self, partition: int, transactional_id: str, journal: Journal) -> None:
        """Keep a journal that is noted in now; the one with the oldest last event makes room."""
        self._journals.pop((partition, transactional_id), None)
        self._journals[partition, transactional_id] = journal
        if len(self._journals) > self._journals_max:
            del self._journals[next(iter(self._journals))]

    def forget(self, partition: int) -> None:
        """Another broker leads a partition now."""
        for key in [key for key in self._journals if key[0] == partition]:
            del self._journals[key]


class ShardJournals:
    """Those of one partition."""

    def __init__(self, journals: Journals, partition: int) -> None:
        self._journals = journals
        self._partition = partition
        self._loaded_ms = 0

    def loaded(self, wall_ms: int) -> None:
        """The log has been read: the journals of its ids begin with that."""
        self._loaded_ms = wall_ms

    def note(
        self, transactional_id: str, transaction: Transaction | None, note: Note, wall_ms: int
    ) -> None:
        """Note an event, unless it repeats the last one.

        Nothing is noted of an id that does not exist, except in a journal that it has from before.
        """
        journal = self._journals.get(self._partition, transactional_id)
        if journal is None:
            if transaction is None or not transaction.exists:
                return
            journal = self._begun(transaction)
        self._journals.keep(self._partition, transactional_id, journal)
        journal.wall_ms = wall_ms
        journal.note_once(*note)

    def entries(self, transactional_id: str, transaction: Transaction | None) -> list[JournalEntry]:
        """The events of an id, the oldest first; none if it does not exist and never did."""
        journal = self._journals.get(self._partition, transactional_id)
        if journal is None and transaction is not None and transaction.exists:
            journal = self._begun(transaction)
        return [] if journal is None else journal.entries()

    def _begun(self, transaction: Transaction) -> Journal:
        journal = Journal(ENTRIES_MAX)
        if transaction.is_loaded:
            journal.wall_ms = self._loaded_ms
            journal.note(*notes.loaded())
        return journal

    def forget(self) -> None:
        """Another broker leads the partition now."""
        self._journals.forget(self._partition)
