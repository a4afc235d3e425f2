"""Keeps what recovery cuts out of a log, if it may contain whole batches, in files beside the log.

The files end in `.damaged`, a suffix that Apache Kafka's loader ignores. They are deleted with the
partition's directory, otherwise only by hand.
"""

import logging
from typing import Final

from ..files import FileSystem
from ..log.log_file import LogFile

logger: Final = logging.getLogger("odradek.storage")

SUFFIX: Final = ".damaged"
_CHUNK_BYTES: Final = 4 << 20


def set_aside_tail(files: FileSystem, file: LogFile, position: int, reason: str) -> int:
    """Copy the bytes from `position` on to a synced file of their own; return how many.

    The caller may then cut them off.  Raises: DiskFull, LogDirFailed; nothing may then be cut.
    """
    path = _free_path(files, f"{file.path}.{position}")
    size_bytes = file.size_bytes - position
    files.create(path)
    copy = files.open_log(path, 0)
    try:
        while position < file.size_bytes:
            chunk = file.pread(min(_CHUNK_BYTES, file.size_bytes - position), position)
            if not chunk:
                break
            copy.append(chunk)
            position += len(chunk)
        copy.sync()
    finally:
        copy.close()
    files.sync_path(path.rpartition("/")[0])
    logger.error("damage set aside path=%s bytes=%d reason=%s", path, size_bytes, reason)
    return size_bytes


def set_aside_file(files: FileSystem, file: LogFile, reason: str) -> int:
    """Rename the closed file of a whole segment; return its size in bytes.

    Raises: LogDirFailed.
    """
    path = _free_path(files, file.path)
    files.rename(file.path, path)
    logger.error("segment set aside path=%s bytes=%d reason=%s", path, file.size_bytes, reason)
    return file.size_bytes


def _free_path(files: FileSystem, stem: str) -> str:
    path, number = stem + SUFFIX, 1
    while files.exists(path):
        number += 1
        path = f"{stem}-{number}{SUFFIX}"
    return path
