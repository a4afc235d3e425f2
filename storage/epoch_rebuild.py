"""Leader epochs from their checkpoint file, or from the batch headers."""

import logging
from typing import Final

from .checkpoint import LEADER_EPOCH, parse_epochs
from .errors import CorruptLog
from .files import FileSystem
from .leader_epochs import LeaderEpochs
from .segments import Segments
from .walk import walk_headers

logger: Final = logging.getLogger("odradek.storage")


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
    """The epochs of the file and of the scanned batches; of all batches if the two differ.

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
    if rebuilt:
        logger.warning("leader epochs rebuilt from the batches directory=%s", directory)
        epochs = LeaderEpochs(files, directory, _epochs_of(segments))
    epochs.truncate_end(log_end_offset, write=False)
    epochs.truncate_start(log_start_offset, write=False)
    if (rebuilt or not clean) and log_end_offset > 0:
        epochs.write()
    return epochs


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
    """Each leader epoch with the first offset that it wrote."""
    entries: list[tuple[int, int]] = []
    for segment in segments:
        try:
            for _, header in walk_headers(segment.file, 0, segment.size_bytes):
                epoch = header.partition_leader_epoch
                if epoch >= 0 and (not entries or epoch > entries[-1][0]):
                    entries.append((epoch, header.base_offset))
        except CorruptLog as error:
            logger.warning("a bad batch was passed over error=%s", error)
    return entries
