"""The checker finds every fault in a history, and none in a good one."""

import pytest

from tests.lab.verify.checker import check, find
from tests.lab.verify.events import (
    UNKNOWN,
    Closed,
    Committed,
    Event,
    Fatal,
    Lab,
    Offset,
    Owns,
    Read,
    Sent,
    Span,
    View,
    Writer,
    decode,
    encode,
    line,
    parse,
    runs,
)

NOT_ENOUGH_REPLICAS = 19
TOO_LARGE = 10


def sent(number: int, *, code: int = 0, offset: int | None = None, partition: int = 0) -> Sent:
    offset = (number if code == 0 else -1) if offset is None else offset
    return Sent("w", partition, number, 0, code, offset, 1.0 + number, 0.01)


def read(
    offset: int, number: int, length: int = 1, *, reader: str = "r", at_s: float = 9.0
) -> Read:
    return Read(reader, 0, offset, "w", number, 0, length, at_s)


def history(
    *between: Event,
    outcomes: tuple[Sent, ...] = (sent(0), sent(1), sent(2), sent(3)),
    found: tuple[Read, ...] = (read(0, 0, 4),),
    end: int = 4,
    acks: str = "all",
    idempotent: bool = True,
) -> list[Event]:
    """Four records are written and read back, unless said otherwise."""
    begin: list[Event] = [Writer("w", acks, idempotent, 0.0), *outcomes, Closed("w", 8.0)]
    return [*begin, *between, *found, Span("r", 0, 0, end, 9.5), Closed("r", 10.0)]


def member(*events: Event) -> tuple[Event, ...]:
    """A member that has read and committed the first two records, then `events`."""
    return (
        Owns("m", "g", 0, -1, 0.1, 0.2),
        read(0, 0, 2, reader="m", at_s=3.0),
        Committed("m", "g", 0, 2, 3.1, 3.2),
        *events,
    )


GOOD: dict[str, list[Event]] = {
    "all is kept": history(),
    "a time-out that is there": history(
        outcomes=(sent(0), sent(1, code=UNKNOWN), sent(2), sent(3)),
    ),
    "a time-out that is not there": history(
        outcomes=(sent(0), sent(1, code=UNKNOWN), sent(2, offset=1)),
        found=(read(0, 0), read(1, 2)),
        end=2,
    ),
    "refused and not there": history(
        outcomes=(sent(0), sent(1, code=TOO_LARGE), sent(2, offset=1)),
        found=(read(0, 0), read(1, 2)),
        end=2,
    ),
    "a code that may follow a time-out": history(
        outcomes=(sent(0), sent(1, code=NOT_ENOUGH_REPLICAS), sent(2), sent(3)),
    ),
    "an acknowledgement without an offset": history(
        outcomes=(sent(0, offset=-1), sent(1), sent(2), sent(3)),
    ),
    "acks=1 loses": history(found=(read(0, 0, 3),), end=3, acks="1"),
    "not idempotent": history(
        outcomes=(sent(0), sent(1, offset=2), sent(2, offset=-1)),
        found=(read(0, 0), read(1, 0), read(2, 1), read(3, 0)),
        idempotent=False,
        acks="1",
    ),
    "a high watermark moves": history(
        Offset(0, 0, "latest", 1, 2, 1.0), Offset(1, 0, "latest", 2, 2, 2.0),
        Offset(1, 0, "latest", 2, 4, 3.0),
    ),
    "a stale leader answers late": history(
        Offset(0, 0, "latest", 1, 2, 1.0), Offset(1, 0, "latest", 2, 4, 2.0),
        Offset(0, 0, "latest", 1, 3, 5.0),
    ),
    "a group goes on": history(
        *member(Owns("n", "g", 0, 2, 4.0, 4.1), read(2, 2, 2, reader="n", at_s=5.0))
    ),
    "a group repeats what it did not commit": history(
        *member(
            read(2, 2, 2, reader="m", at_s=4.0),
            Owns("n", "g", 0, 2, 4.5, 4.6),
            read(2, 2, 2, reader="n", at_s=5.0),
        )
    ),
    "a commit on its way while another takes over": history(
        *member(
            read(2, 2, 2, reader="m", at_s=4.0),
            Owns("n", "g", 0, 2, 4.1, 4.3),
            Committed("m", "g", 0, 4, 4.0, 4.2),
        )
    ),
    "committed offsets seen a moment apart": history(
        Offset(0, 0, "group g", -1, 4, 5.0), Offset(1, 0, "group g", -1, 2, 5.1)
    ),
    "the laboratory's notes": history(Lab("kill -9", "broker 0", 1.0, {})),
}  # fmt: skip

BAD: dict[str, tuple[str, list[Event]]] = {
    "the last is lost": ("lost", history(found=(read(0, 0, 3),), end=3)),
    "one in between is lost": ("lost", history(found=(read(0, 0, 2), read(2, 3)), end=3)),
    "lost, its offset taken by another": (
        "differs",
        history(outcomes=(sent(0), sent(1), sent(2), sent(3, offset=2)), found=(read(0, 0, 4),)),
    ),
    "twice": ("doubled", history(found=(read(0, 0, 4), read(4, 1)), end=5)),
    "a time-out twice": (
        "doubled",
        history(
            outcomes=(sent(0), sent(1), sent(2), sent(3, code=UNKNOWN)),
            found=(read(0, 0, 4), read(4, 3)),
            end=5,
        ),
    ),
    "out of order": (
        "reordered",
        history(
            outcomes=(sent(0), sent(1, offset=2), sent(2, offset=1)),
            found=(read(0, 0), read(1, 2), read(2, 1)),
            end=3,
        ),
    ),
    "refused and there": (
        "aborted",
        history(outcomes=(sent(0), sent(1), sent(2), sent(3, code=TOO_LARGE))),
    ),
    "nobody wrote it": ("invented", history(found=(read(0, 0, 5),), end=5)),
    "two readers differ": (
        "differs",
        history(Read("s", 0, 1, "w", 2, 0, 1, 8.0), outcomes=(sent(0), sent(1), sent(2), sent(3))),
    ),
    "a consumer has seen what is gone": (
        "vanished",
        history(
            Read("s", 0, 4, "w", 4, 0, 1, 8.0),
            outcomes=(sent(0), sent(1), sent(2), sent(3), sent(4, code=UNKNOWN)),
        ),
    ),
    "a hole": ("gap", history(outcomes=(sent(0), sent(3)), found=(read(0, 0), read(3, 3)))),
    "a short end": ("gap", history(outcomes=(sent(0),), found=(read(0, 0),), end=2)),
    "a high watermark goes back": (
        "back",
        history(Offset(0, 0, "latest", 1, 3, 1.0), Offset(0, 0, "latest", 1, 2, 2.0)),
    ),
    "the next leader's is lower": (
        "back",
        history(Offset(0, 0, "latest", 1, 3, 1.0), Offset(1, 0, "latest", 2, 2, 2.0)),
    ),
    "it was beyond the end": ("back", history(Offset(0, 0, "latest", 1, 9, 1.0))),
    "the last stable offset goes back": (
        "back",
        history(Offset(0, 0, "stable", 1, 3, 1.0), Offset(0, 0, "stable", 1, 2, 2.0)),
    ),
    "the log start goes back": (
        "back",
        history(Offset(0, 0, "earliest", -1, 3, 1.0), Offset(0, 0, "earliest", -1, 2, 2.0)),
    ),
    "a committed offset goes back": (
        "back",
        history(Offset(0, 0, "group g", -1, 3, 1.0), Offset(0, 0, "group g", -1, 2, 2.0)),
    ),
    "a committed offset goes back with the coordinator": (
        "back",
        history(Offset(0, 0, "group g", -1, 3, 1.0), Offset(1, 0, "group g", -1, 2, 6.0)),
    ),
    "two leaders": (
        "leaders",
        history(View(0, 0, 1, 7, [1], 1.0), View(1, 0, 2, 7, [2], 2.0)),
    ),
    "a second leader answers": (
        "leaders",
        history(View(0, 0, 1, 7, [1], 1.0), Offset(2, 0, "latest", 7, 1, 2.0)),
    ),
    "a group begins too early": (
        "group",
        history(*member(Owns("n", "g", 0, 1, 4.0, 4.1), read(1, 1, reader="n"))),
    ),
    "a group begins where nobody was": (
        "group",
        history(*member(Owns("n", "g", 0, 3, 4.0, 4.1), read(3, 3, reader="n"))),
    ),
    "the first of a group begins where nobody was": (
        "group",
        history(Owns("m", "g", 0, 3, 4.0, 4.1), read(3, 3, reader="m")),
    ),
    "a group skips": ("group", history(*member(read(3, 3, reader="m")))),
    "a group repeats without a rebalance": (
        "group",
        history(*member(read(1, 1, reader="m"))),
    ),
    "committed and never delivered": (
        "group",
        history(*member(Committed("m", "g", 0, 4, 5.0, 5.1))),
    ),
    "given up": ("fatal", history(Fatal("w", "fenced", 2.0))),
    "nobody reads": ("unread", [Writer("w", "all", True, 0.0), sent(0), Closed("w", 8.0)]),
    "a writer does not end": ("unread", [e for e in history() if e != Closed("w", 8.0)]),
    "a reader does not end": ("unread", history()[:-1]),
    "a partition is not read": (
        "unread",
        history(outcomes=(sent(0), sent(1), sent(2), sent(3), sent(0, partition=1, code=-1))),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_has_no_fault(name: str) -> None:
    assert check(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_fault_is_found(name: str) -> None:
    kind, events = BAD[name]
    assert kind in {fault.kind for fault in find(events)}
    assert any(text.startswith(f"{kind}: ") for text in check(events))


def test_many_faults_of_a_kind_are_counted() -> None:
    outcomes = tuple(sent(number) for number in range(20))
    lines = check(history(outcomes=outcomes, found=(), end=0))
    assert [text.partition(":")[0] for text in lines] == ["lost"] * 6
    assert lines[-1] == "lost: 15 more"


def test_an_unclean_election_may_cost_records() -> None:
    events = history(found=(read(0, 0, 3),), end=3)
    assert check(events, clean=False) == []
    doubled = history(found=(read(0, 0, 4), read(4, 1)), end=5)
    assert check(doubled, clean=False) != []


def test_events_survive_their_file() -> None:
    events = history(*member(View(0, 0, 1, 7, [1, 2], 1.0)))
    found = list(parse([line(event) for event in events]))
    assert found == events
    assert [*map(type, found)] == [*map(type, events)]
    note = '{"time": "2026-01-01T00:00:00.500+00:00", "what": "kill -9", "whom": "b", "x": 1}'
    assert list(parse([note])) == [Lab("kill -9", "b", 1767225600.5, {"x": 1})]


def test_records_in_a_row_are_one_event() -> None:
    values = [(0, 0), (1, 1), (2, 5), (4, 6), (5, 7)]
    records = [(offset, encode(sent(number).value, 40)) for offset, number in values]
    found = list(runs("r", 0, records, 9.0))
    assert found == [read(0, 0, 2), read(2, 5), read(4, 6, 2)]
    assert [pair for event in found for pair in event.values()] == [
        (offset, decode(data)) for offset, data in records
    ]
    with pytest.raises(ValueError, match="was found in partition 1"):
        list(runs("r", 1, records, 9.0))
