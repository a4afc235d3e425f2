"""Whether what was done to a cluster took effect: pure, over the events of one run."""

from collections.abc import Iterator, Sequence
from typing import Final

from .events import Controls, Event, Lab, View

KILL: Final = "kill -9"
START: Final = "start"


def broker_of(event: Lab) -> int | None:
    """The broker that something was done to."""
    word, _, number = event.whom.partition(" ")
    return int(number) if word == "broker" and number.isdigit() else None


def done(events: Sequence[Event], what: str) -> Iterator[tuple[int, Lab]]:
    """Each time that `what` was done to a broker."""
    for event in events:
        if isinstance(event, Lab) and event.what == what:
            broker = broker_of(event)
            if broker is not None:
                yield broker, event


def led_by(events: Sequence[Event], broker: int, at_s: float) -> dict[int, int]:
    """The partitions that a broker led at a time, and in which epoch, by what anybody knew."""
    last = _newest_views(events, at_s)
    return {p: view.leader_epoch for p, view in last.items() if view.leader == broker}


def in_sync(events: Sequence[Event], broker: int, at_s: float) -> set[int]:
    """The partitions in whose in-sync sets a broker was."""
    last = _newest_views(events, at_s)
    return {partition for partition, view in last.items() if broker in view.isr}


def epoch_rose(events: Sequence[Event], partition: int, epoch: int, after_s: float) -> bool:
    """Whether somebody else was seen to lead in a later epoch."""
    return any(
        view.leader_epoch > epoch and view.leader >= 0
        for view in _views(events, after_s)
        if view.partition == partition
    )


def shrank(events: Sequence[Event], partition: int, broker: int, after_s: float) -> bool:
    """Whether an in-sync set was seen without a broker."""
    views = _views(events, after_s)
    return any(broker not in view.isr for view in views if view.partition == partition)


def controller_changed(events: Sequence[Event], broker: int, after_s: float) -> bool:
    """Whether some broker came to name another controller than `broker`."""
    return any(
        isinstance(event, Controls)
        and event.at_s > after_s
        and event.controller not in (-1, broker)
        for event in events
    )


def missing(events: Sequence[Event]) -> list[str]:
    """What kills should have caused and did not; [] if all took effect."""
    kills = list(done(events, KILL))
    found = []
    for broker, kill in kills:
        what = f"broker {broker} was killed at {kill.at_s:.3f}, but"
        for partition, epoch in led_by(events, broker, kill.at_s).items():
            if not epoch_rose(events, partition, epoch, kill.at_s):
                found.append(f"{what} partition {partition} is still in epoch {epoch}")
        if _survivors(events, kill):
            for partition in in_sync(events, broker, kill.at_s):
                if not shrank(events, partition, broker, kill.at_s):
                    found.append(f"{what} never left the in-sync set of partition {partition}")
    return found


def _survivors(events: Sequence[Event], kill: Lab) -> bool:
    """Whether anybody lived on to shrink in-sync sets: nobody does if all die together.

    That is, before any is started again, however long the machine stands still between two kills.
    """
    notes = [(event.at_s, event.what, b) for w in (KILL, START) for b, event in done(events, w)]
    dead: set[int] = set()
    for at_s, what, broker in sorted(notes):
        if what == KILL:
            dead.add(broker)
        elif at_s > kill.at_s:
            break
        else:
            dead.discard(broker)
    known = {view.broker for view in _views(events, 0.0)}
    return bool(known - dead)


def _views(events: Sequence[Event], after_s: float) -> Iterator[View]:
    return (event for event in events if isinstance(event, View) and event.at_s > after_s)


def _newest_views(events: Sequence[Event], at_s: float) -> dict[int, View]:
    """By partition, the view of the highest epoch, the latest of those."""
    last: dict[int, View] = {}
    for view in _views(events, 0.0):
        known = last.get(view.partition)
        if view.at_s <= at_s and (
            known is None or (known.leader_epoch, known.at_s) <= (view.leader_epoch, view.at_s)
        ):
            last[view.partition] = view
    return last
