"""One data directory: its lock and owner, its partitions, its checkpoints, its clean shutdown.

Startup: take the lock, check the owner (meta.properties), read the checkpoints, note and remove the
clean-shutdown marker, load every partition. For a partition, the marker counts only if the recovery
points name the partition, and the checkpoints of recovery points, high watermarks and log starts
can all be read. Shutdown: flush and close every log, write the checkpoints, then write the marker.
"""

import logging
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Final

from ..errors import DataDirError, LogDirFailed, StorageError
from ..files import FileLock, FileSystem
from ..log.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    TopicPartition,
)
from ..log.load_report import LoadReport
from ..log.log import DIRECTORY_NAME_MAX, STRAY_SUFFIX, Log
from ..log.log_config import LogConfig
from ..log.plans import CheckpointPlan, CreatePlan, DeletePlan, FlushPlan
from ..recovery.load import LoadHints, create_log, load_log
from .checkpoints import Checkpoints, checkpoint_plan
from .closing import close_steps
from .found_partition import FoundPartition, Unserved
from .meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    render_meta_properties,
)
from .suspicion import Suspicion

logger: Final = logging.getLogger("odradek.storage")

_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_FUTURE_DIRECTORY: Final = re.compile(
    r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})\.[0-9a-f]{32}-future"
)
_FILES: Final = frozenset({META_PROPERTIES, RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER})
_DELETED_DIRECTORY: Final = re.compile(r".+\.[0-9a-f]{32}-delete")


class DataDir:
    """A locked data directory.  `open` does all steps; a broker that needs them separately (its
    store is in the same directory) calls `lock`, `identify` and `load` in turn."""

    def __init__(
        self, path: str, files: FileSystem, lock: FileLock, boot_id: str | None = None
    ) -> None:
        self.path = path
        self.suspicion = Suspicion(files, path, boot_id)
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        """Copies of replicas that are being moved here from another directory."""
        self.was_clean = False
        self._files = files
        self._lock = lock
        self._deleted: list[str] = []
        self._found: list[FoundPartition] | None = None
        self.recovered: dict[str, tuple[LoadHints, LoadReport]] = {}
        """Logs that other processes recovered and closed, by directory; these hints replace the
        checkpoints."""
        self.unserved: dict[TopicPartition, Unserved] = {}
        """Partitions that could not be loaded; their directories are untouched."""
        self._failures: list[LogDirFailed] = []
        self.is_loaded = False
        self._creating_count = 0
        self.remembered: set[TopicPartition] = set()
        """The partitions in the checkpoints on disk, whose offsets a new log of that name would
        inherit."""

    @classmethod
    def open(
        cls,
        path: str,
        broker_id: int,
        cluster_id: str,
        files: FileSystem,
        *,
        config_of: Callable[[str], LogConfig],
        wall_ms: int,
    ) -> "DataDir":
        """Lock, identify and load; `config_of` gives a topic's settings.  Raises: DataDirError."""
        data_dir = cls.lock(path, files)
        try:
            data_dir.identify(broker_id, cluster_id)
            data_dir.load(config_of, wall_ms)
        except BaseException:
            data_dir.abandon()
            raise
        return data_dir

    @classmethod
    def lock(cls, path: str, files: FileSystem, boot_id: str | None = None) -> "DataDir":
        """Create the directory if it does not exist, and take its lock.

        `boot_id`: of the machine, if it has one.  Raises: DataDirError.
        """
        path = path.rstrip("/") or "/"
        try:
            files.make_directory(path)
            return cls(path, files, files.lock(f"{path}/.lock"), boot_id)
        except LogDirFailed as error:
            raise DataDirError(f"the data directory is not writable: {error}") from error

    def stored_owner(self) -> MetaProperties | None:
        """The owner of the directory, or None if it is new.  Raises: DataDirError."""
        try:
            return read_meta_properties(self._files, f"{self.path}/{META_PROPERTIES}")
        except LogDirFailed as error:
            raise DataDirError(f"the data directory is not readable: {error}") from error

    def identify(self, broker_id: int, cluster_id: str) -> None:
        """Claim a new directory, or check that it belongs to this broker.  Raises: DataDirError."""
        owner = self.stored_owner()
        if owner is None:
            meta = render_meta_properties(MetaProperties(broker_id, cluster_id))
            try:
                self._files.write_atomic(f"{self.path}/{META_PROPERTIES}", meta)
            except LogDirFailed as error:
                raise DataDirError(f"the data directory is not writable: {error}") from error
        elif owner.broker_id != broker_id:
            raise DataDirError(
                f"the data directory {self.path} belongs to broker {owner.broker_id}, "
                f"not to broker {broker_id}"
            )
        elif owner.cluster_id != cluster_id:
            raise DataDirError(
                f"the data directory {self.path} belongs to the cluster {owner.cluster_id}, "
                f"not to the cluster {cluster_id}"
            )

    def load(self, config_of: Callable[[str], LogConfig], wall_ms: int) -> None:
        """Load every partition, with recovery after an unclean shutdown.  Raises: DataDirError."""
        try:
            partitions = self.begin_loading()
            for found in partitions:
                self.load_one(found, config_of(found.topic), wall_ms)
            if partitions and len(self._failures) == len(partitions):
                raise self._failures[0]  # the disk is bad, not the partitions
            if self._suspect_lossy():
                self.checkpoint()  # new appends must not count as committed after a kill
        except DataDirError:
            raise
        except StorageError as error:
            raise DataDirError(
                f"the data directory {self.path} cannot be loaded: {error}"
            ) from error
        self.is_loaded = True

    def begin_loading(self) -> list[FoundPartition]:
        """Note and remove the marker, read the checkpoints, list the partitions in the directory.

        Done once; later calls return the same list.  Raises: LogDirFailed.
        """
        if self._found is not None:
            return self._found
        marker_path = f"{self.path}/{CLEAN_SHUTDOWN}"
        self.was_clean = self._files.exists(marker_path)
        checkpoints = Checkpoints.read(self._files, self.path)
        self.remembered = checkpoints.keys()
        found = []
        for info in self._files.list_directory(self.path):
            path = f"{self.path}/{info.name}"
            if not info.is_directory:
                self._look_at_file(info.name, path, checkpoints)
                continue
            if _DELETED_DIRECTORY.fullmatch(info.name):
                self._deleted.append(path)
                continue
            future = _FUTURE_DIRECTORY.fullmatch(info.name)
            match = future or _PARTITION_DIRECTORY.fullmatch(info.name)
            if match is None:
                logger.warning("unknown directory ignored path=%s", path)
                continue
            key = match[1], int(match[2])
            hints = checkpoints.hints(key, marker=self.was_clean, is_copy=future is not None)
            cleaner_offset = (checkpoints.cleaner or {}).get(key)
            found.append(FoundPartition(path, *key, future is not None, hints, cleaner_offset))
        served = [partition.key for partition in found if not partition.is_future]
        self.suspicion.begin(served, was_clean=self.was_clean)
        if self.was_clean:
            # Removed before anything is loaded, and synced: a crash from here on is unclean.
            self._files.unlink(marker_path)
            self._files.sync_path(self.path)
        self._found = found
        return found

    def _suspect_lossy(self) -> bool:
        """Suspect the replicas that lost committed records; return whether there are any."""
        lossy = [key for key, log in self.logs.items() if log.loaded and log.loaded.lost_committed]
        for key in lossy:
            self.suspicion.add(key, "committed records are lost")
        self.suspicion.write()
        return bool(lossy)

    def _look_at_file(self, name: str, path: str, checkpoints: Checkpoints) -> None:
        match = _PARTITION_DIRECTORY.fullmatch(name)
        if match is not None:
            key = match[1], int(match[2])
            found = FoundPartition(path, *key, False, checkpoints.hints(key, marker=False), None)
            self.unserved[key] = Unserved("it is a file where a directory should be", found)
            logger.error("partition not served path=%s reason=%s", path, self.unserved[key].reason)
        elif not (name.startswith(".") or name in _FILES or name.endswith(".tmp")):
            logger.warning("unknown file ignored path=%s", path)

    def load_one(self, found: FoundPartition, config: LogConfig, wall_ms: int) -> Log | None:
        """Load one of the partitions found, recovering it if necessary.

        None: it can't be loaded. `unserved` has the reason (not for a copy); the directory is left
        alone.
        """
        hints, report = self.recovered.pop(found.directory, (found.hints, None))
        try:
            log = load_log(
                self._files,
                found.directory,
                found.topic,
                found.partition,
                config=config,
                hints=hints,
                wall_ms=wall_ms,
            )
        except StorageError as error:
            logger.error("partition not served path=%s reason=%s", found.directory, error)
            if isinstance(error, LogDirFailed):
                self._failures.append(error)
            if not found.is_future:
                self.unserved[found.key] = Unserved(str(error), found)
            return None
        if found.is_future and found.key in self.futures:
            logger.warning("second copy ignored path=%s", found.directory)
            log.abandon()
            return None
        log.loaded = report or log.loaded
        log.cleaner_offset = found.cleaner_offset
        (self.futures if found.is_future else self.logs)[found.key] = log
        return log

    def all_logs(self) -> Iterator[Log]:
        """The logs that are served, and those being moved here."""
        yield from self.logs.values()
        yield from self.futures.values()

    @property
    def partition_count(self) -> int:
        """The number of replicas here, including those being created or moved here."""
        return len(self.logs) + len(self.futures) + self._creating_count

    def space(self) -> tuple[int, int]:
        """Total and available bytes of the file system.  Raises: LogDirFailed."""
        return self._files.space(self.path)

    def note_deleted(self, directory: str) -> None:
        """Add a directory, already renamed, to those for `deleted_plans`."""
        self._deleted.append(directory)

    def deleted_plans(self) -> list[DeletePlan]:
        """Plans for the directories whose deletion the last run did not finish; each only once."""
        plans = [DeletePlan(self._files, directory) for directory in self._deleted]
        self._deleted = []
        return plans

    def create_plan(
        self, topic: str, partition: int, *, topic_id: bytes | None, config: LogConfig, epoch: int
    ) -> "CreatePlan":
        """A plan to create an empty partition with leader epoch `epoch`; it must not exist yet.

        Call `plan.run()` in any thread, then `created(plan)` here, or `not_created` if it failed.
        """
        assert (topic, partition) not in self.logs
        self._creating_count += 1
        directory = f"{self.path}/{topic}-{partition}"
        return CreatePlan(
            self._files,
            directory,
            lambda: create_log(
                self._files,
                directory,
                topic,
                partition,
                topic_id=topic_id,
                config=config,
                leader_epoch=epoch,
            ),
        )

    def created(self, plan: "CreatePlan") -> Log:
        """Start to serve the log that the plan created."""
        log = plan.log
        assert log is not None
        self._creating_count -= 1
        self.logs[log.topic, log.partition] = log
        return log

    def not_created(self) -> None:
        """Note that the plan of a `create_plan` failed."""
        self._creating_count -= 1

    def create_log(
        self, topic: str, partition: int, *, topic_id: bytes | None, config: LogConfig
    ) -> Log:
        """Create an empty partition; it must not exist yet.  Raises: DiskFull, LogDirFailed."""
        directory = f"{self.path}/{topic}-{partition}"
        log = create_log(self._files, directory, topic, partition, topic_id=topic_id, config=config)
        self.logs[topic, partition] = log
        return log

    def create_future(self, source: Log, name: str) -> Log:
        """Create an empty copy of a log in another directory.  Raises: DiskFull, LogDirFailed."""
        key = source.topic, source.partition
        assert not (key in self.logs or key in self.futures)
        directory = f"{self.path}/{name}"
        topic_id, config = source.topic_id, source.config
        try:
            log = create_log(self._files, directory, *key, topic_id=topic_id, config=config)
        except LogDirFailed:
            self._files.remove_tree(directory)  # otherwise the next start would begin the move
            raise
        self.futures[key] = log
        return log

    def delete_log(self, topic: str, partition: int, uuid: bytes) -> DeletePlan:
        """Rename a partition's directory to its `-delete` name; the plan unlinks it.

        Write a checkpoint afterwards, so that a new partition of that name does not inherit the
        offsets.  Raises: LogDirFailed.
        """
        plan = self.logs[topic, partition].delete(uuid)
        del self.logs[topic, partition]  # not after a failure: the name is then still taken
        return plan

    def delete_future(self, topic: str, partition: int, uuid: bytes) -> DeletePlan:
        """As `delete_log`, for the copy of a replica whose move here was cancelled."""
        plan = self.futures[topic, partition].delete(uuid)
        del self.futures[topic, partition]
        return plan

    def set_aside(self, topic: str, partition: int, uuid: bytes) -> str:
        """Rename a partition's directory to a `-stray` name, and keep it; return its new path.

        Raises: LogDirFailed.
        """
        directory = self.logs[topic, partition].move_away(uuid, STRAY_SUFFIX)
        del self.logs[topic, partition]
        return directory

    def set_unserved_aside(self, topic: str, partition: int, uuid: bytes) -> str | None:
        """As `set_aside`, for a partition that could not be loaded and whose topic is deleted.

        None: it is not in `unserved`.  Raises: LogDirFailed.
        """
        unserved = self.unserved.get((topic, partition))
        if unserved is None:
            return None
        ending = f"-{partition}.{uuid.hex()}{STRAY_SUFFIX}"
        path = f"{self.path}/{topic[: DIRECTORY_NAME_MAX - len(ending)]}{ending}"
        self._files.rename(unserved.found.directory, path)
        del self.unserved[topic, partition]
        return path

    def checkpoint_plan(self) -> CheckpointPlan:
        """A plan for all checkpoints, with the current offsets.

        Call `plan.run()` in any thread, one plan at a time, then `checkpointed(plan)` here.
        """
        unserved = {key: unserved.found.hints for key, unserved in self.unserved.items()}
        plan = checkpoint_plan(self._files, self.path, self.logs | self.futures, unserved)
        self.remembered |= plan.recovery_points.keys()
        return plan

    def checkpointed(self, plan: CheckpointPlan) -> None:
        """Note that the plan ran without an error: its log starts and recovery points are safe.

        Removes older producer snapshots of flushes.  Raises: LogDirFailed.
        """
        self.remembered = set(plan.recovery_points)
        for key, recovery_point in plan.recovery_points.items():
            log = self.logs.get(key) or self.futures.get(key)
            if log is not None:
                log.flushing.checkpointed(recovery_point, plan.log_starts.get(log))

    def checkpoint(self) -> None:
        """Write all checkpoints now, with fsync.  Raises: DiskFull, LogDirFailed."""
        plan = self.checkpoint_plan()
        plan.run()
        self.checkpointed(plan)

    def closing(self) -> Generator[list[FlushPlan]]:
        """The steps of a clean shutdown, as `close` runs them; see `close_steps`."""
        return close_steps(self, self._files)

    def close(self) -> None:
        """Shut down cleanly: flush and close all logs, write checkpoints, then the marker; unlock.

        Blocks for the fsyncs.  Raises: DiskFull, LogDirFailed; the marker is then not written.
        """
        with closing(self.closing()) as steps:
            for plans in steps:
                for plan in plans:
                    plan.run()

    def abandon(self) -> None:
        """Close the files and release the lock without writing, like a crash.  Idempotent."""
        for log in self.all_logs():
            log.abandon()
        self._lock.release()
