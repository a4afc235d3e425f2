"""What a follower does with its log: it writes what its leader has, byte for byte."""

from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.records import check_crc, iter_batches

from .errors import CorruptLog

if TYPE_CHECKING:
    from .log import Log


class Appended(NamedTuple):
    """The offsets that an append of several batches took; `offset_end` is exclusive."""

    offset_first: int
    offset_end: int
    size_bytes: int
    """How much of what was given is in the log now."""


class UnexpectedOffset(CorruptLog):
    """A batch that was fetched begins before the log's end, where it should go on."""

    def __init__(self, log: "Log", base_offset: int, last_offset: int) -> None:
        super().__init__(f"{log}: offset {base_offset} was fetched at {log.log_end_offset}")
        self.base_offset = base_offset
        self.last_offset = last_offset


def append_as_follower(
    log: "Log",
    batches: memoryview,
    *,
    wall_ms: int,
    batches_max: int,
    bytes_max: int,
    epoch_max: int,
) -> Appended:
    """Append whole batches, no more than `batches_max` and none that begins after `bytes_max`.

    A torn last one is left for the next fetch.

    So is all from the first batch on that has a later leader epoch than `epoch_max`: it is not of
    the leader that was asked (KAFKA-18723).
    Raises: UnexpectedOffset (offsets that do not rise), MalformedMessage (also a wrong checksum),
    DiskFull, LogDirFailed; the batches before the bad one are kept.
    """
    offset_first, position_end = log.log_end_offset, 0
    for count, (position, header) in enumerate(iter_batches(batches)):
        leader_epoch = header.partition_leader_epoch
        if count >= batches_max or position > bytes_max or leader_epoch > epoch_max:
            break
        position_end = position + header.size_bytes
        batch = batches[position:position_end]
        check_crc(batch, header)
        base_offset = header.base_offset
        if base_offset < log.log_end_offset or header.last_offset_delta < 0:
            raise UnexpectedOffset(log, base_offset, header.last_offset)
        log.append_as_is(batch, header, base_offset, leader_epoch, header.max_timestamp, wall_ms)
    return Appended(offset_first, log.log_end_offset, position_end)
