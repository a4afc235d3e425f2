"""From a partition's directory to its log.

After a clean stop the files are trusted as far as a look at each shows nothing wrong. After an
unclean one every segment from the recovery point on is scanned (recovery.py): the first bad batch
ends the log, what follows is removed, the indexes are written anew. Leader epochs and producer
state are taken from their files and brought up to the log end from the batch headers.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .checkpoint import PARTITION_METADATA, read_topic_id, render_partition_metadata
from .epoch_rebuild import load_epochs
from .errors import CorruptLog
from .files import FileInfo, FileSystem
from .leader_epochs import UNDEFINED, LeaderEpochs
from .log import Log
from .log_config import LogConfig
from .log_recovery import LogRecovery
from .producer_rebuild import rebuild_producers
from .producer_snapshot import snapshot_offsets
from .producer_state import ProducerState
from .segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    create_missing_indexes,
    create_segment,
)
from .segments import Segments
from .swap import complete_swaps
from .walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")

_BASE_OFFSET: Final = re.compile(r"[0-9]{20}")
_UNFINISHED_SUFFIXES: Final = (".cleaned", ".deleted", ".tmp")


@dataclass(frozen=True, slots=True)
class LoadHints:
    """What the data directory's checkpoints say of one partition."""

    clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


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
    """Make an empty partition.  Nothing is synced: without records all of it can be made again.

    `leader_epoch`: the first leadership, if one begins at once.  Raises: DiskFull, LogDirFailed.
    """
    files.make_directory(directory)
    segment = create_segment(files, directory, 0)
    if topic_id is not None:
        files.write_bytes(f"{directory}/{PARTITION_METADATA}", render_partition_metadata(topic_id))
    epochs = LeaderEpochs(files, directory)
    epochs.assign(leader_epoch, 0)
    return Log(
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


def load_log(
    files: FileSystem,
    directory: str,
    topic: str,
    partition: int,
    *,
    config: LogConfig,
    hints: LoadHints,
    wall_ms: int,
) -> Log:
    """Open what is in `directory`; a directory without segments becomes an empty log.

    Raises: UnsupportedFormat, CorruptLog (a damaged compaction), LogDirFailed.
    """
    infos = {info.name: info for info in files.list_directory(directory)}
    _remove_unfinished(files, directory, infos)
    segments = _open_segments(files, directory, infos, hints.log_start_offset)
    log_end_offset = _check_clean(files, segments, infos, config) if hints.clean else None
    recovery = None
    if log_end_offset is None:
        recovery = _recover(files, directory, segments, infos, config, hints)
        log_end_offset, producers = recovery.log_end_offset, recovery.producers
    else:
        producers = rebuild_producers(files, directory, segments, log_end_offset, infos.values())
    producers.expire(wall_ms, producer_id_expiration_ms=config.producer_id_expiration_ms)
    log_start_offset = max(hints.log_start_offset, segments.first_offset)
    log = Log(
        files,
        directory,
        topic=topic,
        partition=partition,
        topic_id=read_topic_id(files, f"{directory}/{PARTITION_METADATA}"),
        config=config,
        segments=segments,
        producers=producers,
        epochs=load_epochs(
            files,
            directory,
            segments,
            recovery.epochs if recovery else [],
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            clean=recovery is None,
        ),
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=recovery.recovery_point if recovery else log_end_offset,
    )
    log.high_watermark = hints.high_watermark
    snapshots = snapshot_offsets(infos.values())
    if recovery is not None:
        log.flushing.recovered(recovery.recovered[:-1], recovery.scanned_bytes)
    else:
        log.flushing.loaded_clean(log_end_offset if log_end_offset in snapshots else -1)
    for segment in segments:
        segment.rest()
    if log_end_offset < hints.log_start_offset:
        logger.warning("log ends before its start and is emptied log=%r", log)
        log.restart_at(hints.log_start_offset)
    return log


def _remove_unfinished(files: FileSystem, directory: str, infos: dict[str, FileInfo]) -> None:
    """Remove what deletions and atomic writes left half done; complete compactions."""
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
    files: FileSystem, segments: Segments, infos: dict[str, FileInfo], config: LogConfig
) -> int | None:
    """The log end, if the last batch ends with its file as after a clean stop; else None."""
    for segment in segments:
        _repair_indexes(files, segment, infos, config)
    active = segments.active
    last = active.offset_index.last()
    try:
        log_end_offset = active.base_offset
        start = 0 if last is None else last.position
        for _, header in walk_headers(active.file, start, active.size_bytes):
            log_end_offset = header.next_offset
    except CorruptLog as error:
        logger.warning("log is not as clean as its marker says, recovered error=%s", error)
        return None
    return log_end_offset


def _recover(
    files: FileSystem,
    directory: str,
    segments: Segments,
    infos: dict[str, FileInfo],
    config: LogConfig,
    hints: LoadHints,
) -> LogRecovery:
    """Scan what lies above the recovery point; below it only look at the indexes."""
    recovery_point = hints.recovery_point
    recovery = LogRecovery(files, directory, infos, config=config, recovery_point=recovery_point)
    for segment in segments.before_offset(recovery_point):
        _repair_indexes(files, segment, infos, config)
    recovery.run(segments)
    _report_loss(directory, recovery.log_end_offset, hints)
    return recovery


def _repair_indexes(
    files: FileSystem, segment: Segment, infos: dict[str, FileInfo], config: LogConfig
) -> None:
    """Rebuild indexes with a visible fault."""
    problem = segment.index_problem(infos)
    if problem is not None:
        logger.warning("index rebuilt path=%s problem=%s", segment.file.path, problem)
        create_missing_indexes(files, segment, infos)
        segment.rebuild_indexes(config)


def _report_loss(directory: str, log_end_offset: int, hints: LoadHints) -> None:
    if log_end_offset < hints.high_watermark:
        logger.error(
            "committed records are lost directory=%s high_watermark=%d log_end_offset=%d",
            directory,
            hints.high_watermark,
            log_end_offset,
        )


def _stems(infos: Iterable[FileInfo], suffix: str) -> list[int]:
    """The base offsets of the files with a suffix, rising."""
    stems = [info.name.removesuffix(suffix) for info in infos if info.name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if _BASE_OFFSET.fullmatch(stem))
