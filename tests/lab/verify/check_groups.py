"""Groups go on where they were, and nothing is skipped (see `checker.py`)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from .events import Committed, Event, Owns, Read, Span

Found = Iterator[tuple[str, str]]


def group_faults(events: Sequence[Event]) -> Found:
    """Kind and words of each."""
    group_of = {e.member: e.group for e in events if isinstance(e, Owns)}
    mine: dict[tuple[str, int], list[Owns | Committed | Read]] = defaultdict(list)
    for event in events:
        if isinstance(event, Owns | Committed):
            mine[event.group, event.partition].append(event)
        elif isinstance(event, Read) and event.reader in group_of:
            mine[group_of[event.reader], event.partition].append(event)
    starts = {event.partition: event.first for event in events if isinstance(event, Span)}
    for (group, partition), found in mine.items():
        where, start = f"{group}, partition {partition}", starts.get(partition, 0)
        yield from _begins(where, found, start)
        yield from _goes_on(where, found, start)
        yield from _covers(where, found, start)


def _begins(where: str, found: Sequence[Owns | Committed | Read], start: int) -> Found:
    """A new owner begins at the last commit or after it, and not where nobody has been."""
    for owns in (event for event in found if isinstance(event, Owns)):
        commits = [
            event.offset
            for event in found
            if isinstance(event, Committed) and event.at_s < owns.asked_s
        ]
        if owns.offset < max(commits, default=-1):
            yield "group", f"{where}: {owns} although {max(commits)} was committed"
        polled = [
            event.offset + event.length
            for event in found
            if isinstance(event, Read) and event.at_s <= owns.at_s
        ]
        reached = max(polled, default=start)
        if owns.offset > reached:
            yield "group", f"{where}: {owns}, but delivered was only what is below {reached}"


def _goes_on(where: str, found: Sequence[Owns | Committed | Read], start: int) -> Found:
    """Each owner is given the first record after what is committed, then one after the other."""
    expected: dict[str, int] = {}
    for event in found:
        if isinstance(event, Owns):
            expected[event.member] = max(event.offset, start)
        elif isinstance(event, Read):
            due = expected.get(event.reader)
            if event.offset != due:
                yield "group", f"{where}: {event.reader} was given {event.offset}, {due} was due"
            expected[event.reader] = event.offset + event.length


def _covers(where: str, found: Sequence[Owns | Committed | Read], start: int) -> Found:
    """What is committed was delivered, all of it."""
    commits = [event.offset for event in found if isinstance(event, Committed)]
    reached = start
    reads = (event for event in found if isinstance(event, Read))
    for read in sorted(reads, key=lambda event: event.offset):
        if read.offset > reached:
            break
        reached = max(reached, read.offset + read.length)
    if max(commits, default=-1) > reached:
        yield "group", f"{where}: {max(commits)} is committed, delivered is all up to {reached}"
