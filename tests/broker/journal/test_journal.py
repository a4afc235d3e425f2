"""The journal's entries: how many there are, and which are shown."""

from odradek.broker.journal.journal import Entry, Journal


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
