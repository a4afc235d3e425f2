"""Offsets that may not go back, and leaders of which there may be one (see `checker.py`)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from .events import Event, Offset, Span, View

Found = Iterator[tuple[str, str]]
# Two brokers are asked beside each other: an answer may be older than another by so much.
ANSWER_S: Final = 3.0


def offset_faults(events: Sequence[Event]) -> Found:
    """Kind and words of each."""
    told: dict[tuple[str, int], list[Offset]] = defaultdict(list)
    for event in events:
        if isinstance(event, Offset):
            told[event.which, event.partition].append(event)
    for (which, partition), offsets in told.items():
        offsets.sort(key=lambda event: event.at_s)
        if which.startswith("group "):
            yield from _committed(which, partition, offsets)
        elif which == "earliest":
            yield from _by_broker(which, partition, offsets)
        else:
            yield from _by_epoch(which, partition, offsets)
    yield from _beyond(told, events)
    yield from _leaders(told, events)


def _by_epoch(which: str, partition: int, offsets: Sequence[Offset]) -> Found:
    """A leader's end within its epoch, and no later leader's is lower: consumers see no way back.

    A leader that was replaced and does not know it yet may answer late; so epochs go before times.
    """
    last: Offset | None = None
    for now in sorted(offsets, key=lambda event: event.leader_epoch):
        if last is not None and now.offset < last.offset:
            yield "back", f"{which} of partition {partition}: {last} then {now}"
        last = now


def _by_broker(which: str, partition: int, offsets: Sequence[Offset]) -> Found:
    last: dict[int, Offset] = {}
    for now in offsets:
        before = last.get(now.broker)
        if before is not None and now.offset < before.offset:
            yield "back", f"{which} of partition {partition}: {before} then {now}"
        last[now.broker] = now


def _committed(which: str, partition: int, offsets: Sequence[Offset]) -> Found:
    for index, now in enumerate(offsets):
        for before in offsets[:index]:
            sure = before.broker == now.broker or before.at_s < now.at_s - ANSWER_S
            if sure and now.offset < before.offset:
                yield "back", f"{which} of partition {partition}: {before} then {now}"
                break


def _beyond(told: dict[tuple[str, int], list[Offset]], events: Sequence[Event]) -> Found:
    """What consumers were told of as the end is there in the end."""
    for span in (event for event in events if isinstance(event, Span)):
        for seen in told.get(("latest", span.partition), ()):
            if seen.offset > span.end:
                yield "back", f"{span.reader}: the log ends at {span.end}, but there was {seen}"


def _leaders(told: dict[tuple[str, int], list[Offset]], events: Sequence[Event]) -> Found:
    leaders: dict[tuple[int, int], set[int]] = defaultdict(set)
    for event in events:
        if isinstance(event, View) and event.leader >= 0:
            leaders[event.partition, event.leader_epoch].add(event.leader)
    for (which, partition), offsets in told.items():
        for offset in offsets if which == "latest" else ():
            leaders[partition, offset.leader_epoch].add(offset.broker)
    for (partition, epoch), brokers in leaders.items():
        if len(brokers) > 1:
            yield "leaders", f"partition {partition}, epoch {epoch}: {sorted(brokers)}"
