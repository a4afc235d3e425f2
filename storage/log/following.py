"""Appends on a follower: batches fetched from the leader are written byte for byte.

A large fetch can be staged first: a thread writes the batches past the end of the file, and the
append then only takes them over (`stage`, `append_staged`).
"""

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import BatchHeader, check_crc, iter_batches
from odradek.protocol.records.batch import HEADER_SIZE_BYTES, MAGIC, read_header

from ..errors import CorruptLog
from .checkpoint import OFFSET_MAX
from .staging import Staged, StagedBatch

if TYPE_CHECKING:
    from .log import Log


STAGED_BYTES_MIN: Final = 1 << 18
"""From this size on a thread pays off: writing to fresh page cache memory is slow."""
STAGED_BATCHES_MAX: Final = 256  # appended in one go, which takes a few milliseconds


class Appended(NamedTuple):
    """The offsets taken by an append of several batches; `offset_end` is exclusive."""

    offset_first: int
    offset_end: int
    size_bytes: int
    """How many of the given bytes were appended."""


class UnexpectedOffset(CorruptLog):
    """The offsets of a fetched batch do not continue the log."""

    def __init__(self, log: "Log", base_offset: int, last_offset: int) -> None:
        super().__init__(f"{log}: offset {base_offset} was fetched at {log.log_end_offset}")
        self.base_offset = base_offset
        self.last_offset = last_offset


class UnexpectedEpoch(CorruptLog):
    """The leader epoch of a fetched batch is out of order."""


def append_as_follower(
    log: "Log",
    batches: memoryview,
    *,
    wall_ms: int,
    batches_max: int,
    bytes_max: int,
    epoch_max: int,
    gaps_before: int,
) -> Appended:
    """Append whole batches, at most `batches_max` and none that begins after `bytes_max`.

    An incomplete last batch is left for the next fetch. So is the first batch with a later leader
    epoch than `epoch_max`, and everything after it: the leader that was asked did not write it
    (KAFKA-18723).
    `gaps_before`: compaction may have left offset gaps only below this offset.
    Raises: UnexpectedOffset (offsets go back, or skip some that must exist), UnexpectedEpoch,
    MalformedMessage (also a wrong checksum), DiskFull, LogDirFailed; the batches before the bad one
    are kept.
    """
    offset_first, position_end = log.log_end_offset, 0
    for count, (position, header) in enumerate(iter_batches(batches)):
        leader_epoch = header.partition_leader_epoch
        if count >= batches_max or position > bytes_max or leader_epoch > epoch_max:
            break
        position_end = position + header.size_bytes
        batch = batches[position:position_end]
        check_crc(batch, header)
        if not _goes_on(header, log.log_end_offset, log.epochs.latest):
            _check_unusual(log, header, batches[position_end:], gaps_before)
        _append(log, batch, header, wall_ms)
    return Appended(offset_first, log.log_end_offset, position_end)


def stage(log: "Log", batches: memoryview, *, epoch_max: int) -> Staged | None:
    """Stage the first of these batches: a thread writes them (`run`), then call `append_staged`.

    Takes at most `STAGED_BATCHES_MAX`, and stops before a batch that is unusual or does not fit
    into the segment. None: these are less than `STAGED_BYTES_MIN`, or no descriptor is left.
    `append_as_follower` takes the batches not staged.  Raises: LogDirFailed.
    """
    if len(batches) < STAGED_BYTES_MIN or log.epochs.latest > epoch_max:
        return None
    file = log.segments.active.file
    room_bytes = log.config.segment_bytes - file.size_bytes
    offset, position_end = log.log_end_offset, 0
    found: list[StagedBatch] = []
    with contextlib.suppress(MalformedMessage):
        for position, header in iter_batches(batches):
            goes_on = _goes_on(header, offset, log.epochs.latest)
            if (
                not goes_on
                or position + header.size_bytes > room_bytes
                or len(found) == STAGED_BATCHES_MAX
            ):
                break
            offset, position_end = header.next_offset, position + header.size_bytes
            found.append(StagedBatch(batches[position:position_end], header))
    return file.stage(batches[:position_end], found) if position_end >= STAGED_BYTES_MIN else None


def append_staged(log: "Log", staged: Staged, *, wall_ms: int) -> Appended:
    """Append the staged batches in one go, as far as they still continue the log.

    Raises: MalformedMessage (a wrong checksum), DiskFull, LogDirFailed; the batches before the bad
    one are kept.
    """
    offset_first, position_end = log.log_end_offset, 0
    for batch, header in staged.batches:
        if not _goes_on(header, log.log_end_offset, log.epochs.latest):
            break
        check_crc(batch, header)
        _append(log, batch, header, wall_ms)
        position_end += header.size_bytes
    return Appended(offset_first, log.log_end_offset, position_end)


def _append(log: "Log", batch: memoryview, header: BatchHeader, wall_ms: int) -> None:
    log.append_as_is(
        batch,
        header,
        header.base_offset,
        header.partition_leader_epoch,
        header.max_timestamp,
        wall_ms,
    )


def _goes_on(header: BatchHeader, log_end_offset: int, latest_epoch: int) -> bool:
    """Whether the batch is a usual one: it begins at the log end offset, in the latest epoch."""
    return (
        header.base_offset == log_end_offset
        and header.partition_leader_epoch == latest_epoch
        and header.last_offset_delta >= 0
        and header.base_offset <= OFFSET_MAX
    )


def _check_unusual(log: "Log", header: BatchHeader, rest: memoryview, gaps_before: int) -> None:
    """Check offset and leader epoch, which the checksum does not cover.

    If a flipped bit made one of them greater, the next batch seems to go back.
    Raises: UnexpectedOffset, UnexpectedEpoch.
    """
    base_offset, last_offset = header.base_offset, header.last_offset
    epoch, latest = header.partition_leader_epoch, log.epochs.latest
    is_gap = base_offset > log.log_end_offset
    is_possible = log.log_end_offset <= base_offset <= OFFSET_MAX
    if not is_possible or header.last_offset_delta < 0:
        raise UnexpectedOffset(log, base_offset, last_offset)
    if 0 <= epoch < latest:
        raise UnexpectedEpoch(f"{log}: offset {base_offset} has epoch {epoch} after {latest}")
    following = _peek(rest)
    if following is None:
        if is_gap and last_offset >= gaps_before and not log.config.compacts:
            raise UnexpectedOffset(log, base_offset, last_offset)
        return
    if is_gap and following.base_offset <= last_offset:
        raise UnexpectedOffset(log, base_offset, last_offset)
    if 0 <= following.partition_leader_epoch < epoch:
        raise UnexpectedEpoch(
            f"{log}: offset {base_offset} has epoch {epoch} "
            f"before {following.partition_leader_epoch}"
        )


def _peek(rest: memoryview) -> BatchHeader | None:
    if len(rest) < HEADER_SIZE_BYTES or rest[16] != MAGIC:
        return None
    return read_header(rest, 0)
