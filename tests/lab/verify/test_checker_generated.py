"""Generated histories: good ones pass, and each way to spoil one is found."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.verify.checker import check, find
from tests.lab.verify.events import (
    UNKNOWN,
    Closed,
    Committed,
    Event,
    Offset,
    Owns,
    Read,
    Sent,
    Span,
    Value,
    Writer,
    encode,
    runs,
)

WRITERS: Final = ("a", "b")
REFUSED: Final = 10


class World:
    """A partition's log as it grows, and what everybody notes meanwhile."""

    def __init__(self) -> None:
        self.log: list[Value] = []
        self.events: list[Event] = [Writer(name, "all", True, 0.0) for name in WRITERS]
        self.at_s = 1.0
        self.epoch = 0
        self.seen = self.position = 0
        self.committed = -1
        self.numbers = dict.fromkeys(WRITERS, 0)
        self.owner = "m-0"
        self._own()

    def step(self, what: str, writer: str) -> None:
        """One thing happens."""
        self.at_s += 1.0
        getattr(self, f"_{what}")(writer)

    def finish(self) -> list[Event]:
        """Everything is read back."""
        self.at_s += 1.0
        self.events += [Closed(name, self.at_s) for name in WRITERS]
        for reader in ("r", "s"):
            self._note_read(reader, 0, len(self.log))
            self.events.append(Span(reader, 0, 0, len(self.log), self.at_s))
            self.events.append(Closed(reader, self.at_s))
        return self.events

    def _ack(self, writer: str) -> None:
        self._sent(writer, 0, there=True)

    def _unanswered(self, writer: str) -> None:
        self._sent(writer, UNKNOWN, there=True)

    def _gone(self, writer: str) -> None:
        self._sent(writer, UNKNOWN, there=False)

    def _refused(self, writer: str) -> None:
        self._sent(writer, REFUSED, there=False)

    def _sent(self, writer: str, code: int, *, there: bool) -> None:
        value = Value(writer, 0, self.numbers[writer], 0)
        self.numbers[writer] += 1
        offset = len(self.log) if code == 0 else -1
        if there:
            self.log.append(value)
        self.events.append(Sent(*value, code, offset, self.at_s - 1, 0.5))

    def _elected(self, _: str) -> None:
        self.epoch += 1

    def _look(self, _: str) -> None:
        self.seen = len(self.log)
        for which in ("latest", "stable"):
            self.events.append(Offset(self.epoch % 3, 0, which, self.epoch, self.seen, self.at_s))
        self.events.append(Offset(0, 0, "group g", -1, self.committed, self.at_s))

    def _poll(self, _: str) -> None:
        self._note_read(self.owner, self.position, len(self.log))
        self.position = len(self.log)

    def _commit(self, _: str) -> None:
        if self.position == 0:
            return
        self.committed = self.position
        at = self.owner, "g", 0, self.committed, self.at_s - 0.2, self.at_s
        self.events.append(Committed(*at))

    def _rebalance(self, _: str) -> None:
        self.owner = f"m-{int(self.at_s) % 2}"
        self.position = max(0, self.committed)
        self._own()

    def _own(self) -> None:
        at = self.owner, "g", 0, self.committed, self.at_s - 0.2, self.at_s
        self.events.append(Owns(*at))

    def _note_read(self, reader: str, begin: int, end: int) -> None:
        records = [(offset, encode(self.log[offset])) for offset in range(begin, end)]
        self.events += runs(reader, 0, records, self.at_s)


STEPS: Final = (
    "ack", "ack", "ack", "unanswered", "gone", "refused", "elected", "look", "poll", "commit",
    "rebalance",
)  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> list[Event]:
    """A good history of one partition, with at least one record that was acknowledged."""
    world = World()
    for what, writer in draw(
        st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(WRITERS)), max_size=40)
    ):
        world.step(what, writer)
    for what in ("ack", "ack", "poll", "commit", "look"):
        world.step(what, "a")
    return world.finish()


def acked(events: list[Event]) -> list[Sent]:
    """In the order of the log."""
    return [event for event in events if isinstance(event, Sent) and event.code == 0]


def without(events: list[Event], value: Value) -> list[Event]:
    """All readers of everything find it gone, and the log shorter."""
    return relogged(events, lambda log: log.remove(value))


def relogged(events: list[Event], change: Callable[[list[Value]], object]) -> list[Event]:
    """What the readers of everything find is changed."""
    others = [e for e in events if not (isinstance(e, Read | Span) and e.reader in ("r", "s"))]
    reads = [e for e in events if isinstance(e, Read) and e.reader == "r"]
    log = [value for event in reads for _, value in event.values()]
    change(log)
    found: list[Event] = []
    for reader in ("r", "s"):
        found += runs(reader, 0, [(i, encode(value)) for i, value in enumerate(log)], 99.0)
        found.append(Span(reader, 0, 0, len(log), 99.0))
    return [*others, *found]


def lose(events: list[Event]) -> list[Event]:
    return without(events, acked(events)[-1].value)


def double(events: list[Event]) -> list[Event]:
    return relogged(events, lambda log: log.append(acked(events)[0].value))


def swap(events: list[Event]) -> list[Event]:
    first, second = acked(events)[-2:]

    def change(log: list[Value]) -> None:
        i, j = log.index(first.value), log.index(second.value)
        log[i], log[j] = log[j], log[i]

    return relogged(events, change)


def take_in_the_refused(events: list[Event]) -> list[Event]:
    last = acked(events)[-1]
    number = max(e.number for e in events if isinstance(e, Sent) and e.writer == "a") + 1
    refused = Sent(*last.value._replace(number=number), REFUSED, -1, 98.0, 0.1)
    return relogged([*events, refused], lambda log: log.append(refused.value))


def invent(events: list[Event]) -> list[Event]:
    return relogged(events, lambda log: log.append(Value("a", 0, 10_000, 0)))


def leave_a_hole(events: list[Event]) -> list[Event]:
    span = next(event for event in events if isinstance(event, Span))
    return [*events, span._replace(end=span.end + 1)]


def go_back(events: list[Event]) -> list[Event]:
    last = [e for e in events if isinstance(e, Offset) and e.which == "latest"][-1]
    return [*events, last._replace(offset=last.offset - 1, at_s=last.at_s + 1)]


def forget_a_commit(events: list[Event]) -> list[Event]:
    last = [e for e in events if isinstance(e, Committed)][-1]
    again = Owns("m-2", "g", 0, last.offset - 1, last.at_s + 1, last.at_s + 2)
    return [*events, again]


def skip(events: list[Event]) -> list[Event]:
    last = [e for e in events if isinstance(e, Committed)][-1]
    return [*events, Read(last.member, 0, last.offset + 1, "a", 0, 0, 1, last.at_s + 3)]


SPOILED: Final[dict[Callable[[list[Event]], list[Event]], str]] = {
    lose: "lost",
    double: "doubled",
    swap: "reordered",
    take_in_the_refused: "aborted",
    invent: "invented",
    leave_a_hole: "gap",
    go_back: "back",
    forget_a_commit: "group",
    skip: "group",
}


@pytest.mark.slow
@settings(max_examples=100)
@given(worlds())
def test_a_good_history_passes(events: list[Event]) -> None:
    assert check(events) == []


@pytest.mark.parametrize("spoil", SPOILED)
@settings(max_examples=20)
@given(events=worlds())
def test_a_spoiled_history_is_found_out(
    spoil: Callable[[list[Event]], list[Event]], events: list[Event]
) -> None:
    assert SPOILED[spoil] in {fault.kind for fault in find(spoil(events))}
