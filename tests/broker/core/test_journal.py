from odradek.broker.core.journal import TEXT_MAX, Journal, JournalEntry


def journal(entries_max: int, *events: str) -> Journal:
    told = Journal(entries_max)
    for wall_ms, event in enumerate(events):
        told.wall_ms = wall_ms
        told.note(event, "because")
    return told


def kept(told: Journal) -> list[tuple[int, str]]:
    return [(entry.wall_ms, entry.event) for entry in told.entries()]


def test_an_entry_has_the_time_and_texts_of_a_limited_length() -> None:
    told = Journal()
    told.wall_ms = 7
    told.note("joined", "r" * 1_000, "m" * 1_000)
    assert told.entries() == [JournalEntry(7, "joined", "m" * TEXT_MAX, "r" * TEXT_MAX)]


def test_the_oldest_of_the_most_frequent_event_makes_room() -> None:
    told = journal(4, "fenced", "began", "ended", "began", "ended", "began")
    assert kept(told) == [(0, "fenced"), (3, "began"), (4, "ended"), (5, "began")]


def test_a_flood_of_one_event_displaces_no_other() -> None:
    told = journal(10, "loaded", "fenced", *["refused"] * 1_000)
    assert kept(told) == [(0, "loaded"), (1, "fenced")] + [(n, "refused") for n in range(994, 1002)]


def test_a_repetition_is_noted_once() -> None:
    told = Journal()
    for who, reason in (("a", "r"), ("a", "r"), ("b", "r"), ("b", "s"), ("b", "s"), ("a", "r")):
        told.note_once("refused", reason, who)
    told.note("refused", "r", "a")
    assert [(e.who, e.reason) for e in told.entries()] == [
        ("a", "r"),
        ("b", "r"),
        ("b", "s"),
        ("a", "r"),
        ("a", "r"),
    ]
    long = Journal()
    long.note_once("refused", "r" * 1_000)
    long.note_once("refused", "r" * 1_000)
    assert len(long.entries()) == 1
