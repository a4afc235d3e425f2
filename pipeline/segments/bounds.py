"""Resolves the options to one range of offsets for each partition."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import iter_records

from ..errors import PipelineError
from ..offsets import EARLIEST, LATEST, TopicPartition
from .batches import RECORDS_BYTES_MAX, pass_over, read_batches
from .log_view import LogView
from .options import Bound, PerPartition, ReadOptions

logger = logging.getLogger(__name__)


class Known(NamedTuple):
    """The readable offsets of a partition; without an end, up to the end of its log."""

    start: int
    end: int | None


def resolve(
    views: Mapping[TopicPartition, LogView],
    known: Mapping[TopicPartition, Known],
    options: ReadOptions,
) -> dict[TopicPartition, tuple[int, int | None]]:
    """The start and end offset of each partition.  Raises: PipelineError, StorageError."""
    for side, bound in (("starting", options.starting), ("ending", options.ending)):
        for what, given in (
            ("Offsets", bound.offsets),
            ("OffsetsByTimestamp", bound.timestamps_ms),
        ):
            _require_all(f"{side}{what}", given, known)
    return {
        key: (
            _start(views[key], key, limits, options),
            _end(views[key], key, limits, options),
        )
        for key, limits in known.items()
    }


def _require_all(
    name: str, given: PerPartition | None, known: Mapping[TopicPartition, Known]
) -> None:
    """As in Spark's Kafka source, all partitions have to be named, and no others."""
    if given is None or given.keys() == known.keys():
        return
    missing = ", ".join(map(str, sorted(known.keys() - given.keys())))
    others = ", ".join(map(str, sorted(given.keys() - known.keys())))
    what = f"does not name {missing}" if missing else f"names {others}, which is not read"
    raise PipelineError(
        f"option {name} {what}: it has to name every partition that is read "
        f"({EARLIEST} means the first offset, {LATEST} the last)"
    )


def _start(view: LogView, key: TopicPartition, known: Known, options: ReadOptions) -> int:
    bound = options.starting
    timestamp_ms = _time_of(bound, key)
    if timestamp_ms is not None:
        offset = offset_for_time(view, timestamp_ms, known)
        if offset is not None:
            return offset
        if not options.latest_if_no_time:
            raise PipelineError(
                f"no offset matched: {key} has no record at or after {timestamp_ms}; "
                "startingOffsetsByTimestampStrategy=latest passes such partitions over"
            )
        return _at_end(view, known)
    offset = EARLIEST if bound.offsets is None else bound.offsets[key]
    if offset == EARLIEST:
        return known.start
    return _within(view, key, offset, known, options)


def _end(view: LogView, key: TopicPartition, known: Known, options: ReadOptions) -> int | None:
    bound = options.ending
    timestamp_ms = _time_of(bound, key)
    if timestamp_ms is not None:
        offset = offset_for_time(view, timestamp_ms, known)
        return known.end if offset is None else offset
    offset = LATEST if bound.offsets is None else bound.offsets[key]
    return known.end if offset == LATEST else _within(view, key, offset, known, options)


def _within(
    view: LogView, key: TopicPartition, offset: int, known: Known, options: ReadOptions
) -> int:
    """A requested offset, which must be readable; without failOnDataLoss, the nearest one."""
    end = known.end
    if end is None and offset > known.start:
        end = max(offset if _has(view, offset) else 0, _at_end(view, known))
    end = known.start if end is None else end
    if known.start <= offset <= end:
        return offset
    what = f"offset {offset} of {key} is not there: what can be read is {known.start} up to {end}"
    if options.fail_on_data_loss:
        raise PipelineError(f"{what}; failOnDataLoss=false reads what is left")
    logger.warning("%s", what)
    return min(max(offset, known.start), end)


def _has(view: LogView, offset: int) -> bool:
    """Whether there is a batch at an offset or after it, which is faster to find than the end."""
    return any(True for _ in read_batches(view, offset, None, pass_over))


def _at_end(view: LogView, known: Known) -> int:
    """The end of the readable offsets."""
    if known.end is not None:
        return known.end
    end = known.start
    start = max((segment.floor(1 << 62).offset for segment in view.segments[-1:]), default=0)
    for batch in read_batches(view, max(start, known.start), None, pass_over):
        end = max(end, batch.header.next_offset)
    return end


def _time_of(bound: Bound, key: TopicPartition) -> int | None:
    if bound.timestamps_ms is not None:
        return bound.timestamps_ms[key]
    return bound.timestamp_ms


def offset_for_time(view: LogView, timestamp_ms: int, known: Known) -> int | None:
    """The first offset in the range whose record is not older, found with the time indexes.

    Raises: UnsupportedFormat, LogDirFailed.
    """
    for segment in view.from_offset(known.start):
        if known.end is not None and segment.base_offset >= known.end:
            break
        last = segment.last_time()
        if segment.offset_end is not None and last is not None and last.timestamp < timestamp_ms:
            continue
        before = segment.time_before(timestamp_ms)
        start = max(known.start, segment.base_offset, 0 if before is None else before.offset)
        ends = [end for end in (known.end, segment.offset_end) if end is not None]
        for batch in read_batches(view, start, min(ends, default=None), pass_over):
            if batch.header.max_timestamp < timestamp_ms:
                continue
            found = _first_record(batch.data, timestamp_ms, known)
            if found is not None:
                return found
    return None


def _first_record(data: memoryview, timestamp_ms: int, known: Known) -> int | None:
    try:
        for record in iter_records(data, size_bytes_max=RECORDS_BYTES_MAX):
            if known.end is not None and record.offset >= known.end:
                return None
            if record.timestamp >= timestamp_ms and record.offset >= known.start:
                return record.offset
    except MalformedMessage:
        pass  # the read itself reports it
    return None
