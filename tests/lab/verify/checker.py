"""What the history of a run proves: pure, over its events.

Faults have a kind each:

    lost       acknowledged, and a reader of everything has not found it
    doubled    found twice
    reordered  found after a later number of the same writer
    aborted    the broker has refused it for certain, and it was found
    invented   found, and nobody wrote it
    differs    two values at one offset: of two readers, or of a reader and an acknowledgement
    vanished   a consumer was given it, and in the end the log does not reach so far
    gap        an offset that holds nothing
    back       a high watermark, a log start or a committed offset that went back
    leaders    two brokers led a partition in one leader epoch
    group      a group that did not go on where it was, or skipped something
    fatal      a client has given up
    unread     not everything was read back, or a client has not finished

A time-out is neither a success nor a failure: that record may be there or not, but not twice, and
not out of order.  Writers that do not wait for all replicas may lose what was acknowledged; writers
that are not idempotent may repeat and reorder.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from .check_groups import group_faults
from .check_offsets import offset_faults
from .check_records import record_faults
from .events import Closed, Event, Fatal, Read, Sent, Span, Writer

SHOWN: Final = 5
# With unclean elections a log may lose its end after anybody has read it.
ONLY_IF_CLEAN: Final = frozenset({"lost", "differs", "vanished", "back", "group"})


class Fault(NamedTuple):
    """One thing that may not be."""

    kind: str
    text: str


def check(events: Sequence[Event], *, clean: bool = True) -> list[str]:
    """Every fault found, in words, the first few of each kind.

    Not `clean`: an unclean election was allowed, and what it may cost is no fault.
    """
    faults = sorted(find(events))
    lines = []
    for kind, found in groupby(faults, key=lambda fault: fault.kind):
        if not clean and kind in ONLY_IF_CLEAN:
            continue
        texts = [fault.text for fault in found]
        lines += [f"{kind}: {text}" for text in texts[:SHOWN]]
        if len(texts) > SHOWN:
            lines.append(f"{kind}: {len(texts) - SHOWN} more")
    return lines


def find(events: Sequence[Event]) -> Iterator[Fault]:
    """Every fault."""
    for faults in (record_faults(events), offset_faults(events), group_faults(events)):
        for kind, text in faults:
            yield Fault(kind, text)
    for event in events:
        if isinstance(event, Fatal):
            yield Fault("fatal", f"{event.who}: {event.why}")
    for text in _unfinished(events):
        yield Fault("unread", text)


def _unfinished(events: Sequence[Event]) -> Iterator[str]:
    closed = {event.who for event in events if isinstance(event, Closed)}
    for event in events:
        if isinstance(event, Writer) and event.writer not in closed:
            yield f"{event.writer} has not finished"
    written = {event.partition for event in events if isinstance(event, Sent)}
    spans = [event for event in events if isinstance(event, Span)]
    read = {(span.reader, span.partition) for span in spans}
    readers = {span.reader for span in spans}
    if written and not readers:
        yield "nobody has read everything back"
    for reader in readers:
        if reader not in closed:
            yield f"{reader} has not finished"
        for partition in written:
            if (reader, partition) not in read:
                yield f"{reader} has not read partition {partition}"


def summary(events: Sequence[Event]) -> str:
    """How much was written and read, for a line in a log."""
    codes = [event.code for event in events if isinstance(event, Sent)]
    read = sum(event.length for event in events if isinstance(event, Read))
    return f"sent={len(codes)} acknowledged={codes.count(0)} read={read}"
