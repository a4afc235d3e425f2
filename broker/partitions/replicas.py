"""The replicas on this broker: which ones are served, their settings, and failures of their disks.

The log directories load existing logs when the broker starts; a log is served once the controller
has named its leader. A log that the controller never names is left untouched.

If the disk of a log directory fails, its replicas are offline until the next start, and the
controller is notified. The broker continues with the other directories; but it stops if the failed
one was the last, or the first and holds the broker's own store.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.errors import CorruptLog, DamagedRecords, DiskFull, LogDirFailed, StorageError
from odradek.storage.log.log import Log

from ..config import Config
from ..coordination import znodes
from ..coordination.configs import read_config
from ..coordination.interface import Session
from ..core.log_uses import Act, LogUses, Use
from ..core.partition import Partition
from ..core.partition_state import PartitionState, TopicPartition
from ..core.replica_status import Event, Presence, ReplicaStatuses
from ..metrics.counters import Counters
from ..runtime import Runtime
from ..settings.topic_config import TopicConfig
from ..tasks import TaskSupervisor
from .damage_reports import DamageReports
from .damaged_replicas import DamagedReplicas
from .deletions import Deletions
from .moves import Moves
from .replica_logs import ReplicaLogs
from .shared_flushes import SharedFlushes
from .suspects import Suspects

logger = logging.getLogger(__name__)

READ_AT_ONCE: Final = 100  # topics whose settings are read concurrently
FULL_SILENCE_MS: Final = 10_000  # between log lines about a full disk, as any request may hit it


class Replicas:
    """All replicas, by (topic, partition)."""

    def __init__(
        self,
        log_dirs: LogDirs,
        config: Config,
        runtime: Runtime,
        tasks: TaskSupervisor,
        *,
        broker_id: int,
        counters: Counters,
        on_offline: Callable[[str], None],
    ) -> None:
        self.log_dirs = log_dirs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        """The same by topic id and partition number, except those whose log has no id."""
        self.statuses = ReplicaStatuses()
        self.uses = LogUses()
        self.on_log_dir_failed: Callable[[Collection[TopicPartition]], None] = lambda offline: None
        """Called with the replicas that went offline with a directory, if the broker continues; has
        the controller send LeaderAndIsr again."""
        self.counters = counters
        self.suspects = Suspects(self, config, runtime, tasks, broker_id=broker_id)
        self.on_given_up: list[Callable[[Log], None]] = []
        """Called with a log that is to be deleted or moved away: any work on it must stop."""
        self.is_offline = False
        """Whether the broker must stop: nothing is served any longer."""
        self._full_silent_until_ms = 0
        self.flushes = SharedFlushes(self, runtime, tasks)
        self.deletions = Deletions(runtime, self.take_offline)
        self.logs = ReplicaLogs(self, config, runtime, broker_id)
        self.moves = Moves(self, config, runtime, tasks)
        self.damage_reports = DamageReports(runtime.clock)
        self.damaged = DamagedReplicas(
            self, runtime, broker_id, unnoticed_ms=config.zookeeper_session_timeout_ms
        )
        self.must_checkpoint = asyncio.Event()
        self.is_beyond_checkpoint: Callable[[Log, int], bool] = lambda log, offset: True
        """Whether the checkpoints on disk may promise that a log reaches beyond an offset."""
        self.checkpoint_waiters: list[asyncio.Future[Mapping[DataDir, LogDirFailed]]] = []
        """Waiters for the next checkpoint; `Checkpointer` answers which directories failed."""
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._topic_configs: dict[str, TopicConfig] = {}
        self._on_offline = on_offline
        self._config = config
        self._runtime = runtime
        self._tasks = tasks
        self._broker_id = broker_id

    # Settings, as last read or notified; they may change at any time.

    def topic_config(self, topic: str) -> TopicConfig:
        """The settings of a topic on this broker."""
        config = self._topic_configs.get(topic)
        if config is None:
            config = self._config.topic_config(self._overrides.get(topic))
            self._topic_configs[topic] = config
        return config

    def set_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Set the topic's own settings, which apply from now on."""
        if self._overrides.get(topic) == overrides:
            return
        self._overrides[topic] = overrides
        self._topic_configs.pop(topic, None)
        for (name, _), partition in self.partitions.items():
            if name == topic:
                partition.configure(self.topic_config(topic))

    def update_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The same, but only if the topic's settings have been read here."""
        if topic in self._overrides:
            self.set_overrides(topic, overrides)

    def reconfigure(self) -> None:
        """Apply changed broker settings, which are the defaults of the topics' settings."""
        self._topic_configs.clear()
        for (topic, _), partition in self.partitions.items():
            partition.configure(self.topic_config(topic))

    async def read_overrides(self, topics: Iterable[str], session: Session) -> None:
        """Read the settings of those topics that have not been read here yet."""
        unknown = [topic for topic in topics if topic not in self._overrides]
        for start in range(0, len(unknown), READ_AT_ONCE):
            group = unknown[start : start + READ_AT_ONCE]
            await asyncio.gather(*(self._read_overrides(topic, session) for topic in group))

    async def _read_overrides(self, topic: str, session: Session) -> None:
        not_read: dict[str, str] = {}  # a placeholder; a notified change may replace it meanwhile
        self._overrides[topic] = not_read
        try:
            overrides = await read_overrides(topic, session)
        except BaseException:
            if self._overrides.get(topic) is not_read:
                del self._overrides[topic]
            raise
        if self._overrides.get(topic) is not_read:
            self.set_overrides(topic, overrides)

    def forget_overrides(self, topics: Collection[str]) -> None:
        """Forget the settings of those topics, with deleted replicas, that have none left here."""
        left = {topic for topic, _ in self.partitions} if topics else set()
        for topic in set(topics) - left:
            self._overrides.pop(topic, None)
            self._topic_configs.pop(topic, None)

    # Served replicas.

    def serve(self, log: Log, state: PartitionState) -> bool:
        """Serve a log in a role; False if its disk has failed or is full."""
        try:
            config, begin_flush = self.topic_config(state.topic), self.flushes.begin
            now_ms = self._runtime.clock.now_ms()
            partition = Partition(log, config, state, self._broker_id, begin_flush, now_ms=now_ms)
        except LogDirFailed as error:
            self.take_offline(error)
            self.statuses.note(state.key, Event.LACK_LOG)
            return False
        self.statuses.note(state.key, Event.SERVE)
        self.partitions[state.key] = partition
        self.note_id(partition)
        return True

    def note_id(self, partition: Partition) -> None:
        """Index a served replica by the topic id of its log, if it has one by now."""
        log = partition.log
        if log.topic_id is not None:
            self.by_id[log.topic_id, log.partition] = partition

    def stop_serving(self, keys: Iterable[TopicPartition]) -> None:
        """Stop serving these replicas, and wake the requests that wait for them."""
        for partition in [self.partitions.pop(key) for key in keys if key in self.partitions]:
            self.statuses.note(partition.state.key, Event.STOP)
            log = partition.log
            if log.topic_id is not None:
                self.by_id.pop((log.topic_id, log.partition), None)
            partition.is_leader = False
            partition.wake()

    async def checkpoint(self, data_dir: DataDir | None = None) -> None:
        """Have the checkpoints written with the current values; return once they are durable.

        If a directory is given, only its checkpoints must succeed: another one may stay full for
        long.  Raises: DiskFull, LogDirFailed.
        """
        written = asyncio.get_running_loop().create_future()
        self.checkpoint_waiters.append(written)
        self.must_checkpoint.set()
        for failed, error in (await written).items():
            if data_dir in (None, failed):
                raise error

    async def make_cuts_safe(self, partitions: Iterable[Partition]) -> None:
        """Flush those logs that were cut, then have the checkpoints written.

        Nothing may be appended to them before.  Raises: DiskFull, LogDirFailed; the cuts in other
        directories are safe even then.
        """
        may = self.uses.may
        cut = [(p, p.log, p.log.generation) for p in partitions if not may(Act.APPEND, p.log)]
        if not cut:
            return
        flushed = await self.flushes.flush_all(partition for partition, *_ in cut)
        done = [one for one, is_safe in zip(cut, flushed, strict=True) if is_safe]
        failure = None
        for data_dir in dict.fromkeys(self.log_dirs.of(log.directory) for _, log, _ in done):
            if data_dir is None:  # it has failed meanwhile
                continue
            try:
                await self.checkpoint(data_dir)
            except LogDirFailed as error:
                failure = error
                continue
            for _, log, generation in done:
                is_here = self.log_dirs.of(log.directory) is data_dir
                if is_here and log.generation == generation:  # otherwise it was cut again meanwhile
                    self.uses.end(log, Use.CUT)
        if failure is not None:
            raise failure

    def note_failure(self, error: StorageError) -> None:
        """Handle a storage error: a failed disk goes offline, a corrupt log is logged."""
        if isinstance(error, LogDirFailed):
            self.take_offline(error)
        elif isinstance(error, CorruptLog) and not isinstance(error, DamagedRecords):
            logger.error("log is corrupt: %s", error)

    def take_offline(self, error: LogDirFailed) -> None:
        """Take a failed log directory offline: none of its replicas is served from now on.

        A directory whose disk is only full stays online, as the failed write was undone. If the
        broker can't continue without the directory, it stops.
        """
        if self.is_offline:
            return
        data_dir = self.log_dirs.of(error.path) if error.path else self.log_dirs.first
        if data_dir is None:  # it is offline already
            return
        if isinstance(error, DiskFull):
            now_ms = self._runtime.clock.now_ms()
            if now_ms >= self._full_silent_until_ms:
                self._full_silent_until_ms = now_ms + FULL_SILENCE_MS
                logger.error("disk full path=%s error=%s", data_dir.path, error)
            return
        logger.critical("log directory offline path=%s error=%s", data_dir.path, error)
        if self.log_dirs.can_lose(data_dir):
            self._fail(data_dir)
        else:
            self._end(error)

    def _end(self, error: LogDirFailed) -> None:
        """Stop the broker: no directory is left, or the one with the broker's store has failed."""
        self.is_offline = True
        if len(self.log_dirs.paths) == 1:
            which = "the only log directory"
        elif len(self.log_dirs.online) == 1:
            which = "the last log directory"
        else:
            which = "the first log directory, with the store,"
        self._on_offline(f"{which} is offline: {error}")
        self.stop_serving(list(self.partitions))

    def _fail(self, data_dir: DataDir) -> None:
        statuses = self.statuses
        keys = [key for key in data_dir.logs if statuses[key].presence is not Presence.OFFLINE]
        self.log_dirs.fail(data_dir)
        for key in keys:
            statuses.note(key, Event.FAIL_DIR)
        self.stop_serving(keys)
        logger.critical("replicas offline path=%s count=%d", data_dir.path, len(keys))
        self.on_log_dir_failed(keys)


async def read_overrides(topic: str, session: Session) -> dict[str, str]:
    """The topic's own settings; none if its config znode is missing or malformed."""
    return await read_config(session, znodes.topic_config_path(topic))
