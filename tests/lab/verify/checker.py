"""What a history proves: pure, over the events of one run.  (Being filled.)"""

from collections import Counter
from collections.abc import Sequence

from .events import Event, Read, Sent, Value


def check(events: Sequence[Event]) -> list[str]:
    """Every fault found, in words; [] if nothing is lost, doubled, reordered or goes back."""
    seen: dict[str, Counter[Value]] = {}
    for event in events:
        if isinstance(event, Read):
            counts = seen.setdefault(event.reader, Counter())
            for step in range(event.count):
                counts[Value(event.writer, event.partition, event.number + step, event.epoch)] += 1
    return [
        f"{reader}: {event.value} is there {counts[event.value]} times"
        for event in events
        if isinstance(event, Sent) and event.code == 0
        for reader, counts in seen.items()
        if counts[event.value] != 1
    ]
