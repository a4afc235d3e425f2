"""Loads the leader epochs from their checkpoint file, or rebuilds them from the batch headers."""

import logging
from typing import Final

from ..errors import CorruptLog
from ..files import FileSystem
from ..log.checkpoint import LEADER_EPOCH, parse_epochs
from ..log.leader_epochs import LeaderEpochs
from ..log.segments import Segments
from ..log.walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")

LOOKED_AT_MAX: Final = 8  # the latest epochs, which are compared with the batches


def load_epochs(
    files: FileSystem,
    directory: str,
    segments: Segments,
    scanned: list[tuple[int, int]],
    *,
    log_start_offset: int,
    log_end_offset: int,
    clean: bool,
) -> LeaderEpochs:
    """The epochs of the file and of the scanned batches; of all batches if the file is wrong.

    Raises: DiskFull, LogDirFailed.
    """
    entries = _read_epochs(files, f"{directory}/{LEADER_EPOCH}")
    epochs = LeaderEpochs(files, directory, entries or ())
    rebuilt = entries is None and log_end_offset > segments.first_offset
    for epoch, offset in scanned:
        if epoch > epochs.latest:
            epochs.assign(epoch, offset, write=False)
        elif epochs.epoch_of(offset) != epoch:
            rebuilt = True
    rebuilt = rebuilt or _contradicts(epochs, segments, log_start_offset, log_end_offset)
    if rebuilt:
        logger.warning("leader epochs rebuilt from the batches directory=%s", directory)
        epochs = LeaderEpochs(files, directory, _epochs_of(segments))
    epochs.truncate_end(log_end_offset, write=False)
    epochs.truncate_start(log_start_offset, write=False)
    if (rebuilt or not clean) and log_end_offset > 0:
        epochs.write()
    return epochs


def _contradicts(
    epochs: LeaderEpochs, segments: Segments, log_start_offset: int, log_end_offset: int
) -> bool:
    """Whether the last batch, or one at the boundary of two epochs, has another epoch."""
    entries = epochs.entries()
    offsets = {log_end_offset - 1}
    for _, start in entries[1:][-LOOKED_AT_MAX:]:
        offsets |= {start - 1, start}
    if entries and entries[0][1] > log_start_offset:
        offsets.add(log_start_offset)
    for offset in sorted(offsets):
        if not segments.first_offset <= offset < log_end_offset:
            continue
        try:
            header = segments.header_at(offset)
        except CorruptLog:
            continue
        if header is None or header.partition_leader_epoch < 0:
            continue
        epoch = epochs.epoch_of(max(offset, header.base_offset))
        if epoch != header.partition_leader_epoch:
            return True
    return False


def _read_epochs(files: FileSystem, path: str) -> list[tuple[int, int]] | None:
    data = files.read_bytes(path)
    if not data:
        return None
    try:
        return parse_epochs(data)
    except ValueError as error:
        logger.warning("leader epochs unreadable path=%s error=%s", path, error)
        return None


def _epochs_of(segments: Segments) -> list[tuple[int, int]]:
    """Each leader epoch with its first offset, from the batch headers."""
    entries: list[tuple[int, int]] = []
    for segment in segments:
        try:
            for _, header in walk_headers(segment.file, 0, segment.size_bytes):
                epoch = header.partition_leader_epoch
                if epoch >= 0 and (not entries or epoch > entries[-1][0]):
                    entries.append((epoch, header.base_offset))
        except CorruptLog as error:
            logger.warning("a bad batch was skipped error=%s", error)
    return entries
