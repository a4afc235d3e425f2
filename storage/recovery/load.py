"""Loads the log in a partition's directory.

After a clean shutdown the files are trusted unless a quick check of each finds a fault. After an
unclean one every segment from the recovery point on is scanned (log_recovery.py): the log ends at
the first bad batch, everything after it is removed, and the indexes are rebuilt. Leader epochs and
producer state are read from their files and brought up to the log end from the batch headers.
"""

import logging
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.protocol.primitives import INT32_MAX

from ..errors import CorruptLog
from ..files import WHOLE_BYTES_MAX, FileInfo, FileSystem
from ..log.checkpoint import (
    LEADER_EPOCH,
    OFFSET_MAX,
    PARTITION_METADATA,
    read_topic_id,
    render_partition_metadata,
)
from ..log.leader_epochs import UNDEFINED, LeaderEpochs
from ..log.load_report import LoadReport
from ..log.log import Log
from ..log.log_config import LogConfig
from ..log.producer_rebuild import (
    check_transaction_indexes,
    find_unreplicated,
    rebuild_producers,
)
from ..log.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from ..log.producer_snapshot import snapshot_offsets
from ..log.producer_state import ProducerState
from ..log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    create_segment,
)
from ..log.segment_scan import Report
from ..log.segments import Segments
from ..upkeep.swap import SWAP_SUFFIX, complete_swaps
from .aside import set_aside_tail
from .epoch_rebuild import load_epochs
from .index_check import check_indexes
from .log_recovery import LogRecovery

logger: Final = logging.getLogger("odradek.storage")

_BASE_OFFSET: Final = re.compile(r"[0-9]{20}")
_NAME: Final = re.compile(r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)(\.swap)?$")
_UNFINISHED_SUFFIXES: Final = (".cleaned", ".deleted", ".tmp")


class LoadHints(NamedTuple):
    """What the data directory's checkpoints say about one partition."""

    clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    is_copy: bool = False
    """The log is the target of a move: whatever it lacks is still in the source."""


def create_log(
    files: FileSystem,
    directory: str,
    topic: str,
    partition: int,
    *,
    topic_id: bytes | None,
    config: LogConfig,
    leader_epoch: int = UNDEFINED,
) -> Log:
    """Create an empty partition.  Nothing is synced (`create_together` does that).

    `leader_epoch`: the first leader epoch, if it begins at once.  Raises: DiskFull, LogDirFailed.
    """
    files.make_directory(directory)
    segment = create_segment(files, directory, 0)
    if topic_id is not None:
        files.write_bytes(f"{directory}/{PARTITION_METADATA}", render_partition_metadata(topic_id))
    epochs = LeaderEpochs(files, directory)
    epochs.assign(leader_epoch, 0)
    log = Log(
        files,
        directory,
        topic=topic,
        partition=partition,
        topic_id=topic_id,
        config=config,
        segments=Segments([segment]),
        producers=ProducerState(),
        epochs=epochs,
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
    )
    log.flushing.id_unsynced = topic_id is not None
    return log


def load_log(
    files: FileSystem,
    directory: str,
    topic: str,
    partition: int,
    *,
    config: LogConfig,
    hints: LoadHints,
    wall_ms: int,
    on_progress: Report | None = None,
) -> Log:
    """Load the log in `directory`; a directory without segments becomes an empty log.

    The log's `loaded` has the findings; `on_progress` gets the number of bytes newly scanned.
    Raises: UnsupportedFormat, CorruptLog (damaged compaction, bad file), DiskFull, LogDirFailed.
    """
    report = LoadReport()
    infos = _list(files, directory)
    may_lack = _remove_unfinished(files, directory, infos) or hints.is_copy
    segments = _open_segments(files, directory, infos, hints.log_start_offset)
    log_end_offset, recovery = None, None
    if hints.clean:
        log_end_offset = _check_clean(files, segments, infos, config, hints, report)
    if log_end_offset is None:
        recovery = _recover(
            files, directory, segments, infos, config, hints, report, on_progress, may_lack=may_lack
        )
        log_end_offset, producers = recovery.log_end_offset, recovery.producers
    else:
        producers = rebuild_producers(files, directory, segments, log_end_offset, infos)
    find_unreplicated(
        files,
        directory,
        segments,
        producers,
        high_watermark=hints.high_watermark,
        log_end_offset=log_end_offset,
    )
    doubted = recovery.doubted if recovery else ()
    found = check_transaction_indexes(files, directory, segments, infos, doubted)
    report.indexes_rebuilt += found
    producers.expire(wall_ms, producer_id_expiration_ms=config.producer_id_expiration_ms)
    hinted_start = _hinted_start(directory, log_end_offset, hints, report)
    log_start_offset = max(hinted_start, segments.first_offset)
    epochs = load_epochs(
        files,
        directory,
        segments,
        recovery.epochs if recovery else [],
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        clean=recovery is None,
    )
    log = Log(
        files,
        directory,
        topic=topic,
        partition=partition,
        topic_id=read_topic_id(files, f"{directory}/{PARTITION_METADATA}"),
        config=config,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=recovery.recovery_point if recovery else log_end_offset,
    )
    log.high_watermark = hints.high_watermark
    _note_durable(log, recovery, infos, report.scanned_bytes)
    return _finished(log, hinted_start, report)


def _finished(log: Log, hinted_start: int, report: LoadReport) -> Log:
    """The log at rest, with what was found."""
    for segment in log.segments:
        segment.rest()
    if log.log_end_offset < hinted_start:
        _restart_at(log, hinted_start, report)
    if report != LoadReport():
        log.loaded = report
    return log


def _note_durable(
    log: Log, recovery: LogRecovery | None, names: Iterable[str], scanned_bytes: int
) -> None:
    """Tell the log which of its files are known to be safe on disk."""
    if recovery is not None:
        log.flushing.recovered(recovery.recovered[:-1], scanned_bytes)
        log.flushing.id_unsynced = log.topic_id is not None
    else:
        has_snapshot = log.log_end_offset in snapshot_offsets(names)
        log.flushing.loaded_clean(log.log_end_offset if has_snapshot else -1)


def _hinted_start(directory: str, log_end_offset: int, hints: LoadHints, report: LoadReport) -> int:
    """The checkpointed log start offset, or 0 if it can't be right."""
    start = hints.log_start_offset
    if start > log_end_offset == hints.recovery_point and not report.lost_committed:
        # Everything that was synced is there, and the log start was never beyond that.
        logger.warning("log start %d is beyond the log, ignored path=%s", start, directory)
        return 0
    return start


def _restart_at(log: Log, offset: int, report: LoadReport) -> None:
    """Empty the log and restart it at `offset`; set old segments aside.  Raises: LogDirFailed."""
    logger.warning("log ends before its start and is emptied log=%r", log)
    for segment in log.segments:
        if segment.size_bytes:
            reason = f"it ends before the log start {offset}"
            report.set_aside_bytes += set_aside_tail(log.files, segment.file, 0, reason)
    log.restart_at(offset)


def _list(files: FileSystem, directory: str) -> dict[str, FileInfo]:
    """The files in a partition's directory.  Raises: CorruptLog, LogDirFailed."""
    infos = {}
    for info in files.list_directory(directory):
        is_ours = _NAME.match(info.name) or info.name in (LEADER_EPOCH, PARTITION_METADATA)
        if is_ours:
            problem = impossible(info)
            if problem is not None:
                raise CorruptLog(f"{directory}/{info.name} {problem}")
        if not info.is_directory:
            infos[info.name] = info
        elif not is_ours:
            logger.warning("unknown directory ignored path=%s/%s", directory, info.name)
    return infos


def impossible(info: FileInfo) -> str | None:
    """Why no broker can have written this file, if so.  Such a file is not touched."""
    if info.is_directory:
        return "is a directory where a file should be"
    if info.is_special:
        return "is not a regular file"
    if info.name.endswith((LOG_SUFFIX, LOG_SUFFIX + SWAP_SUFFIX)):
        if int(info.name[:20]) > OFFSET_MAX:
            return "is named after an offset that is too high"
        if info.size_bytes > INT32_MAX:
            return f"has {info.size_bytes} bytes, more than a segment can have"
    is_small = info.name.endswith((SNAPSHOT_SUFFIX, LEADER_EPOCH, PARTITION_METADATA))
    if is_small and info.size_bytes > WHOLE_BYTES_MAX:
        return f"has {info.size_bytes} bytes, which are too many for it"
    return None


def _remove_unfinished(files: FileSystem, directory: str, infos: dict[str, FileInfo]) -> bool:
    """Remove what unfinished deletions and atomic writes left; complete unfinished compactions.

    Returns whether there were unfinished compactions: then offsets may be missing, whatever
    cleanup.policy is now.
    """
    was_compacting = any(name.endswith(SWAP_SUFFIX) for name in infos)
    complete_swaps(files, directory, infos)
    for name in list(infos):
        if name.endswith(_UNFINISHED_SUFFIXES):
            files.unlink(f"{directory}/{name}")
            del infos[name]
    base_offsets = set(_stems(infos.values(), LOG_SUFFIX))
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        for orphan in set(_stems(infos.values(), suffix)) - base_offsets:
            name = f"{orphan:020d}{suffix}"
            files.unlink(f"{directory}/{name}")
            del infos[name]
    return was_compacting


def _open_segments(
    files: FileSystem, directory: str, infos: dict[str, FileInfo], log_start_offset: int
) -> Segments:
    base_offsets = _stems(infos.values(), LOG_SUFFIX)
    if not base_offsets:
        segment = create_segment(files, directory, log_start_offset)
        for info in files.list_directory(directory):
            infos[info.name] = info
        return Segments([segment])
    sizes = {info.name: info.size_bytes for info in infos.values()}
    return Segments(Segment(files, directory, base_offset, sizes) for base_offset in base_offsets)


def _check_clean(
    files: FileSystem,
    segments: Segments,
    infos: dict[str, FileInfo],
    config: LogConfig,
    hints: LoadHints,
    report: LoadReport,
) -> int | None:
    """The log end offset if it equals the recovery point, as after a clean shutdown; else None."""
    end = None
    for segment in segments:
        next_base_offset = segments.next_base_offset(segment)
        end = check_indexes(files, segment, infos, config, report, offset_end=next_base_offset)
    if end is None:
        logger.warning(
            "log is not clean, although its marker says so path=%s", segments.active.file.path
        )
    elif end != hints.recovery_point:
        logger.warning(
            "log does not end where its checkpoint says path=%s log_end_offset=%d "
            "recovery_point=%d",
            segments.active.file.path,
            end,
            hints.recovery_point,
        )
    return end if end == hints.recovery_point else None


def _recover(
    files: FileSystem,
    directory: str,
    segments: Segments,
    infos: dict[str, FileInfo],
    config: LogConfig,
    hints: LoadHints,
    report: LoadReport,
    on_progress: Report | None,
    *,
    may_lack: bool,
) -> LogRecovery:
    """Scan the segments above the recovery point; below it, only check the indexes."""
    report.is_recovered = True
    recovery = LogRecovery(
        files,
        directory,
        infos,
        config=config,
        recovery_point=hints.recovery_point,
        high_watermark=hints.high_watermark,
        may_lack=may_lack,
        report=report,
        on_progress=on_progress,
    )
    for segment in segments.before_offset(hints.recovery_point):
        next_base_offset = segments.next_base_offset(segment)
        check_indexes(files, segment, infos, config, report, offset_end=next_base_offset)
    recovery.cut_finished(segments)
    recovery.run(segments)
    recovery.note_missing_start(
        segments,
        log_start_offset=hints.log_start_offset,
        recovery_point=hints.recovery_point,
    )
    if recovery.log_end_offset < hints.high_watermark:
        lost = hints.high_watermark - recovery.log_end_offset
        report.lost_committed += lost
        logger.error(
            "committed records are lost directory=%s high_watermark=%d log_end_offset=%d lost=%d",
            directory,
            hints.high_watermark,
            recovery.log_end_offset,
            lost,
        )
    return recovery


def _stems(infos: Iterable[FileInfo], suffix: str) -> list[int]:
    """The base offsets of the files with this suffix, rising."""
    stems = [info.name.removesuffix(suffix) for info in infos if info.name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if _BASE_OFFSET.fullmatch(stem))
