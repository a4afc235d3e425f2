"""All data directories of one broker (`log.dirs`).

Each has its own lock, owner, checkpoints and marker; a partition is in one of them. A directory
whose disk fails goes offline while the others continue: at startup (it can't be opened or read) or
later (`fail`). If the first one has the broker's own store, the broker can't run without it.
"""

import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..errors import DataDirError, LogDirFailed
from ..files import FileSystem
from ..log.checkpoint import TopicPartition
from ..log.log import Log
from ..log.log_config import LogConfig
from .data_dir import DataDir
from .meta_properties import MetaProperties
from .moving import resolve
from .suspicion import settle

logger: Final = logging.getLogger("odradek.storage")


class LogDirs:
    """The data directories, in the order of the configuration."""

    def __init__(
        self, paths: Sequence[str], online: list[DataDir], *, needs_first: bool = True
    ) -> None:
        self._needs_first = needs_first
        self.paths = tuple(paths)
        """Absolute paths of all directories, as clients name them."""
        self.online = online
        """The directories in use; at first all that could be locked."""

    @classmethod
    def lock(
        cls,
        paths: Sequence[str],
        files: FileSystem,
        *,
        needs_first: bool = True,
        boot_id: str | None = None,
    ) -> "LogDirs":
        """Create and lock the directories; one must be usable, with `needs_first` the first.

        `boot_id`: of the machine, if it has one.
        Raises: DataDirError (one is named twice, is inside another, or is used by another broker;
        none is usable).
        """
        paths = [os.path.abspath(path) for path in paths]
        _refuse_doubles(paths)
        log_dirs = cls(paths, [], needs_first=needs_first)
        try:
            for path in paths:
                try:
                    log_dirs.online.append(DataDir.lock(path, files, boot_id))
                except DataDirError as error:
                    log_dirs._leave_out(path, error, is_last=path == paths[-1])
        except BaseException:
            log_dirs.abandon()
            raise
        return log_dirs

    @property
    def first(self) -> DataDir:
        """The first directory in use: the one with the broker's own store, if it has one."""
        return self.online[0]

    def can_lose(self, data_dir: DataDir) -> bool:
        """Whether the broker can run without this directory."""
        has_store = self._needs_first and data_dir.path == self.paths[0]
        return len(self.online) > 1 and not has_store

    @property
    def is_complete(self) -> bool:
        """Whether no directory has failed."""
        return len(self.online) == len(self.paths)

    @property
    def is_loaded(self) -> bool:
        """Whether all directories in use have loaded their logs."""
        return all(data_dir.is_loaded for data_dir in self.online)

    def stored_owner(self) -> MetaProperties | None:
        """The owner of the directories, or None if all are new.  Raises: DataDirError."""
        for data_dir in self.online:
            owner = data_dir.stored_owner()
            if owner is not None:
                return owner
        return None

    def identify(self, broker_id: int, cluster_id: str) -> None:
        """Claim new directories, check the others.  Raises: DataDirError."""
        self._each(lambda data_dir: data_dir.identify(broker_id, cluster_id))

    def load(self, config_of: Callable[[str], LogConfig], wall_ms: int) -> None:
        """Load every partition of every directory, and end moves.  Raises: DataDirError."""
        self._each(lambda data_dir: data_dir.load(config_of, wall_ms))
        if len(self.online) > 1:
            try:
                resolve(self.online)
            except LogDirFailed as error:
                raise DataDirError(f"a move of a replica can't be ended: {error}") from error
        self.settle_suspicion()

    def _each(self, step: Callable[[DataDir], None]) -> None:
        for data_dir in list(self.online):
            try:
                step(data_dir)
            except DataDirError as error:
                self._leave_out(data_dir.path, error, is_last=len(self.online) == 1)
                self.fail(data_dir)

    def _leave_out(self, path: str, error: DataDirError, *, is_last: bool) -> None:
        """Log that a directory goes offline; raise if it is needed or its disk is not at fault."""
        has_store = self._needs_first and path == self.paths[0]
        is_needed = has_store or (is_last and {d.path for d in self.online} <= {path})
        if is_needed or not isinstance(error.__cause__, LogDirFailed):
            raise error
        logger.critical("log directory offline path=%s error=%s", path, error)

    # Finding.

    def find(self, topic: str, partition: int) -> Log | None:
        """The log of a partition, in whichever directory it is."""
        for data_dir in self.online:
            log = data_dir.logs.get((topic, partition))
            if log is not None:
                return log
        return None

    def find_future(self, topic: str, partition: int) -> tuple[DataDir, Log] | None:
        """The copy of a partition that is being moved, and its directory."""
        for data_dir in self.online:
            log = data_dir.futures.get((topic, partition))
            if log is not None:
                return data_dir, log
        return None

    def is_unserved(self, key: TopicPartition) -> bool:
        """Whether the partition is here but could not be loaded."""
        return any(key in data_dir.unserved for data_dir in self.online)

    def holds(self, key: TopicPartition) -> bool:
        """Whether the partition is here, served or not."""
        return self.is_unserved(key) or self.find(*key) is not None

    def all_logs(self) -> Iterator[Log]:
        """The logs of all partitions, including copies of those being moved."""
        for data_dir in self.online:
            yield from data_dir.all_logs()

    def of(self, path: str) -> DataDir | None:
        """The directory in use that contains this path, or has it."""
        inside = (d for d in self.online if f"{path}/".startswith(f"{d.path.rstrip('/')}/"))
        return next(inside, None)

    def of_path(self, path: str) -> DataDir | None:
        """The directory in use with exactly this absolute path."""
        return next((data_dir for data_dir in self.online if data_dir.path == path), None)

    def holding(self, log: Log) -> DataDir:
        """The directory that contains a log."""
        data_dir = self.of(log.directory)
        assert data_dir is not None
        return data_dir

    def for_new_partition(self) -> list[DataDir]:
        """The directories for a new partition, in order: the one with the fewest replicas first.

        Source: nextLogDirs of Kafka's LogManager.
        """
        return sorted(self.online, key=lambda data_dir: data_dir.partition_count)

    # Suspect replicas.

    def is_suspect(self, key: TopicPartition) -> bool:
        """Whether a replica may lack records that it once had."""
        return any(key in data_dir.suspicion.suspects for data_dir in self.online)

    def settle_suspicion(self) -> None:
        """Assign suspect replicas to their current directories; persist with `Suspicion.plan`."""
        settle((d.suspicion, d.logs.keys() | d.unserved.keys()) for d in self.online)

    # Ending.

    def fail(self, data_dir: DataDir) -> None:
        """Take a directory offline; nothing is written to it, so it gets no marker either."""
        self.online.remove(data_dir)
        data_dir.abandon()

    def close(self) -> None:
        """Close all directories in use, as `DataDir.close`, even if one fails.

        Raises: DiskFull, LogDirFailed.
        """
        failure = None
        for data_dir in self.online:
            try:
                data_dir.close()
            except LogDirFailed as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Close the files and release the locks without writing, like a crash."""
        for data_dir in self.online:
            data_dir.abandon()


def _refuse_doubles(paths: Sequence[str]) -> None:
    real = [os.path.realpath(path) for path in paths]
    for path, other in zip(paths, real, strict=True):
        if real.count(other) > 1:
            raise DataDirError(f"log.dirs names the directory {path} twice")
    for inner, outer in itertools.permutations(range(len(paths)), 2):
        # The inner one could be mistaken for a partition of the outer one, or take one's name.
        if real[inner].startswith(f"{real[outer].rstrip('/')}/"):
            raise DataDirError(
                f"log.dirs names the directory {paths[inner]}, which lies in {paths[outer]}"
            )
