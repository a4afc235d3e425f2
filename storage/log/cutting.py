"""Cutting a log: its end at an offset, its start, or altogether."""

from typing import TYPE_CHECKING

from .producer_rebuild import rebuild_producers, remove_snapshots_above
from .producer_state import ProducerState
from .segment import Segment, create_segment
from .span import drop_spans
from .walk import walk_headers

if TYPE_CHECKING:
    from .log import Log


def truncate(log: "Log", offset: int) -> int:
    """Remove the batch with `offset` and all after it; return the new log end.

    Raises: CorruptLog (then nothing has changed), DiskFull (then all is cut, and only the epochs'
    file is not written), LogDirFailed.
    """
    if offset >= log.log_end_offset:
        # An epoch in which nothing was written begins there; another leader may know another one.
        log.epochs.truncate_end(log.log_end_offset)
        return log.log_end_offset
    if offset < log.segments.first_offset:
        return restart_at(log, offset)
    segment = log.segments.floor(offset)
    found = segment.find(offset)  # may fail, so before anything is changed
    if found is None:  # in a gap behind the segment's last batch: appends must not go on after it
        offset = _end_of(segment)
    log.reader.forget()
    gone = log.segments.cut_after(segment)
    discard(log, gone)
    if found is not None:
        offset = min(offset, found[0])
        segment.truncate(found[1], offset)
    log.ends_at(offset, gone)
    log.log_start_offset = min(log.log_start_offset, offset)  # it may lie inside the batch
    infos = log.files.list_directory(log.directory)
    log.producers = rebuild_producers(log.files, log.directory, log.segments, offset, infos)
    log.epochs.truncate_end(offset)  # last, as a full disk fails it
    return offset


def restart_at(log: "Log", offset: int) -> int:
    """Remove everything; the log is empty and begins at `offset`.

    Raises: DiskFull (then nothing has changed, or only the epochs' file is not written),
    LogDirFailed.
    """
    first = log.segments.floor(offset)
    if first.base_offset == offset:
        first.truncate(0, offset)
    else:
        first = create_segment(log.files, log.directory, offset)
    log.reader.forget()
    gone = log.segments.replace_all(first)
    discard(log, [segment for segment in gone if segment is not first])
    log.restarts_at(offset, gone)
    infos = log.files.list_directory(log.directory)
    remove_snapshots_above(log.files, log.directory, infos, -1)
    log.producers = ProducerState()
    log.epochs.truncate_end(0)
    return offset


def _end_of(segment: Segment) -> int:
    entry = segment.offset_index.last()
    end = segment.base_offset
    for _, header in walk_headers(segment.file, entry.position if entry else 0, segment.size_bytes):
        end = header.next_offset
    return end


def cut_start(log: "Log", offset: int) -> list[Segment]:
    """Take out and return the segments that end at or before `offset` and before the log start.

    The active one always stays.  Spans on their way keep their file, whatever its name is then.
    """
    gone = log.segments.cut_before(min(offset, log.log_start_offset))
    if gone:
        log.reader.forget()
        log.flushing.start_cut(gone)
        for segment in gone:
            segment.close()
    return gone


def discard(log: "Log", segments: list[Segment]) -> None:
    """Unlink segments; spans on their way are dropped, but keep their file."""
    for segment in segments:
        drop_spans(segment.file, 0)
        segment.close()
        for path in segment.paths():
            log.files.unlink(path)
