"""What the commands of `odradek log` share: exit codes, and the lock of a data directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from odradek.storage.directory.meta_properties import META_PROPERTIES
from odradek.storage.errors import DataDirError, StorageError
from odradek.storage.files import FileSystem
from odradek.storage.inspect.check_directory import LOCK, is_data_directory, partition_of

from .errors import CommandError

SOUND: Final = 0
DAMAGED: Final = 1
COULD_NOT_RUN: Final = 2


class CouldNotRun(CommandError):
    """The command could not run, so that nothing is known about the files: exit code 2."""

    exit_code = COULD_NOT_RUN


@contextmanager
def could_not_run() -> Iterator[None]:
    """End the command with one sentence for a StorageError.  Raises: CouldNotRun."""
    try:
        yield
    except StorageError as error:
        raise CouldNotRun(str(error)) from error


def absolute(path: str) -> str:
    """An absolute path, so that its parent directory is known."""
    return os.path.abspath(path)


def require_logs(files: FileSystem, path: str) -> None:
    """Refuse a path that is no data directory and no partition's.  Raises: CouldNotRun."""
    if not os.path.isdir(path):
        raise CouldNotRun(f"{path} is not a directory")
    if not is_data_directory(files, path):
        return
    infos = files.list_directory(path)
    if any(info.name == META_PROPERTIES for info in infos):
        return
    if not any(info.is_directory and partition_of(info.name) for info in infos):
        raise CouldNotRun(f"{path} is neither a data directory nor one of a partition")


@contextmanager
def held_lock(files: FileSystem, path: str | None, advice: str) -> Iterator[None]:
    """Hold the lock that keeps brokers out.  Raises: CouldNotRun (with `advice`), LogDirFailed."""
    if path is None:
        yield
        return
    try:
        lock = files.lock(path)
    except DataDirError as error:
        raise CouldNotRun(f"{error}{advice}") from error
    try:
        yield
    finally:
        lock.release()


def lock_path(files: FileSystem, path: str) -> str | None:
    """The lock of the data directory that `path` is, or is in; None: there is none."""
    parent = os.path.dirname(path)
    for directory in (path, parent):
        if files.exists(f"{directory}/{META_PROPERTIES}") or files.exists(f"{directory}/{LOCK}"):
            return f"{directory}/{LOCK}"
    return None
