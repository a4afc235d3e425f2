"""Going on in a new segment."""

from typing import TYPE_CHECKING

from odradek.protocol.primitives import INT32_MAX

from .cutting import discard
from .segment import Segment, create_segment

if TYPE_CHECKING:
    from .log import Log


def roll(log: "Log", base_offset: int, wall_ms: int) -> Segment:
    """Finish the active segment and begin a new one.  Raises: DiskFull, LogDirFailed."""
    old = log.segments.active
    if old.base_offset == base_offset:
        return old
    only_empty = old.size_bytes == 0 and len(log.segments) == 1
    if not only_empty:
        old.finish()
        log.flushing.snapshot(log)
    new = create_segment(log.files, log.directory, base_offset)
    new.prepare(wall_ms, log.config)
    if only_empty:
        log.flushing.directory_unsynced = True
        discard(log, log.segments.replace_all(new))
    else:
        log.flushing.rolled(old)
        log.segments.add(new)
    return new


def roll_for(log: "Log", base_offset: int, offset_last: int, wall_ms: int) -> Segment:
    """The same for a batch, which compaction may have left a gap before.

    The segment begins where the log ends, if the batch can be in it: a full disk may keep the batch
    out, and the next one may be of a leader that has what is missing.  Raises: DiskFull,
    LogDirFailed.
    """
    is_near = offset_last - log.log_end_offset <= INT32_MAX
    return roll(log, log.log_end_offset if is_near else base_offset, wall_ms)
