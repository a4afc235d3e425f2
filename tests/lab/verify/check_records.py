"""What became of every record: lost, doubled, reordered, and so on (see `checker.py`)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from .events import DEFINITE, Closed, Event, Read, Sent, Span, Value, Writer

Found = Iterator[tuple[str, str]]
Log = dict[int, Value]


def record_faults(events: Sequence[Event]) -> Found:
    """Kind and words of each."""
    writers = {event.writer: event for event in events if isinstance(event, Writer)}
    closed = {event.who for event in events if isinstance(event, Closed)}
    sent: dict[int, dict[Value, Sent]] = defaultdict(dict)
    for event in events:
        if isinstance(event, Sent):
            sent[event.partition][event.value] = event
    reads: dict[tuple[str, int], list[Read]] = defaultdict(list)
    for event in events:
        if isinstance(event, Read):
            reads[event.reader, event.partition].append(event)
    spans = [event for event in events if isinstance(event, Span)]
    for span in spans:
        found = [pair for read in reads[span.reader, span.partition] for pair in read.values()]
        yield from _gaps(span, found)
        yield from _order(span, found, writers)
        yield from _outcomes(span, found, sent[span.partition], writers, closed)
    ends: dict[int, int] = {}
    for span in spans:
        ends[span.partition] = max(span.end, ends.get(span.partition, 0))
    yield from _agreement(reads, ends)


def _gaps(span: Span, found: Sequence[tuple[int, Value]]) -> Found:
    expected = span.first
    for offset, _ in found:
        if offset != expected:
            where = f"{span.reader}: partition {span.partition}"
            yield "gap", f"{where}: offset {offset} where {expected} was due"
        expected = offset + 1
    if expected != span.end:
        yield "gap", f"{span.reader}: partition {span.partition} ends at {expected}, not {span.end}"


def _order(span: Span, found: Sequence[tuple[int, Value]], writers: dict[str, Writer]) -> Found:
    last: dict[tuple[str, int], int] = {}
    seen: set[Value] = set()
    for offset, value in found:
        if not _promise(writers, value).idempotent:
            continue
        source = value.writer, value.epoch
        if value in seen:
            yield "doubled", f"{span.reader}: {value} again at {offset}"
        elif value.number < last.get(source, -1):
            yield "reordered", f"{span.reader}: {value} at {offset} is after {last[source]}"
        seen.add(value)
        last[source] = max(value.number, last.get(source, -1))


def _outcomes(
    span: Span,
    found: Sequence[tuple[int, Value]],
    sent: dict[Value, Sent],
    writers: dict[str, Writer],
    closed: set[str],
) -> Found:
    places = {value: offset for offset, value in found}
    log = dict(found)
    for value, event in sent.items():
        if event.code == 0 and _promise(writers, value).acks == "all":
            # Before the log's start records may have been deleted.
            if event.offset < span.first and (event.offset >= 0 or span.first > 0):
                continue
            if value not in places:
                yield "lost", f"{span.reader}: {value} acknowledged at {event.offset}"
            elif event.offset >= 0 and log.get(event.offset) != value:
                what = f"{value} was acknowledged, there is {log.get(event.offset)}"
                yield "differs", f"{span.reader}: at {event.offset} {what}"
        elif event.code in DEFINITE and value in places:
            yield "aborted", f"{span.reader}: {value} was refused with {event.code}"
    for value, offset in places.items():
        if value not in sent and value.writer in closed:
            yield "invented", f"{span.reader}: {value} at {offset}"


def _agreement(reads: dict[tuple[str, int], list[Read]], ends: dict[int, int]) -> Found:
    """Of all readers and members, about what stands at an offset and where the log ends."""
    logs: dict[int, Log] = defaultdict(dict)
    for (reader, partition), events in reads.items():
        log = logs[partition]
        for offset, value in (pair for event in events for pair in event.values()):
            known = log.setdefault(offset, value)
            if known != value:
                yield "differs", f"{reader}: {value} at {offset}, others have seen {known}"
            if offset >= ends.get(partition, offset + 1):
                what = f"{value} at {offset}, but partition {partition} ends at {ends[partition]}"
                yield "vanished", f"{reader}: {what}"


def _promise(writers: dict[str, Writer], value: Value) -> Writer:
    return writers.get(value.writer) or Writer(value.writer, "all", True, 0.0)
