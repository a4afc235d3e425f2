"""The journal's entries: how many there are, and which are shown."""

from odradek.broker.journal.journal import Entry, Journal
from odradek.broker.journal.recording import Recording


def entry(journal: Journal, api: str = "Fetch", client_id: str | None = "app-1") -> Entry:
    return Entry(
        number=journal.next_number(),
        at_ms=0,
        broker=0,
        api=api,
        version=1,
        client_id=client_id,
        principal="User:ANONYMOUS",
        group=None,
        transactional_id=None,
        topics=[],
        size_bytes=10,
        faults=[],
    )


def test_the_oldest_make_room() -> None:
    journal = Journal(3)
    for _ in range(5):
        journal.add(entry(journal))
    assert [each.number for each in journal.requests()] == [3, 4, 5]


def test_some_of_the_requests() -> None:
    journal = Journal()
    for api, client_id in (("Fetch", "app-1"), ("Produce", "app-2"), ("Fetch", None)):
        journal.add(entry(journal, api, client_id))

    def numbers(**wanted: object) -> list[int]:
        return [each.number for each in journal.requests(**wanted)]  # type: ignore[arg-type]

    assert numbers(api="Fetch") == [1, 3]
    assert numbers(client_id="app*") == [1, 2]
    assert numbers(client_id="app*", api="P*") == [2]
    assert numbers(after=1) == [2, 3]
    assert numbers(limit=2) == [2, 3]
    assert numbers(limit=0) == []
    journal.clear()
    assert numbers() == []
    assert journal.next_number() == 4


def recorded(journal: Journal, size_bytes: int) -> Entry:
    made = entry(journal)
    made.recording = Recording(frame=bytes(size_bytes))
    journal.add(made)
    return made


def test_recordings_have_a_bound_of_their_own() -> None:
    journal = Journal(3, frames_bytes_max=100)
    first, second = recorded(journal, 60), recorded(journal, 40)
    assert first.recording is not None
    third = recorded(journal, 1)
    assert first.recording is None and second.recording and third.recording
    journal.add(entry(journal))
    journal.add(entry(journal))
    assert second.recording is None  # it has left the journal
    assert recorded(journal, 99).recording is not None
    assert recorded(journal, 101).recording is None  # it is larger than all that is kept
    journal.clear()
    assert recorded(journal, 100).recording is not None
    assert not Journal().records
