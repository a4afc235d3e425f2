"""The replicas on this broker: made, led and deleted as the controller says, and kept on disk.

The log directories load what lies there when the broker starts; a log is served once the controller
has named its leader. A directory that the controller never names is left untouched.

A log directory whose disk fails takes its replicas with it: they are `offline` until the next
start, and the controller is told. The others go on, unless it was the first or the last one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from odradek.storage.data_dir import CreatePlan, DataDir
from odradek.storage.errors import CorruptLog, DamagedRecords, DiskFull, LogDirFailed, StorageError
from odradek.storage.log import Log
from odradek.storage.log_dirs import LogDirs

from .config import Config
from .coordination import znodes
from .coordination.interface import NoNode, Session
from .core.partition import Partition
from .core.partition_state import PartitionState
from .counters import Counters
from .deletions import Deletions
from .group_commit import GroupCommit
from .moves import Moves
from .runtime import Runtime
from .settings.topic_config import TopicConfig
from .tasks import TaskSupervisor

log = logging.getLogger(__name__)

MADE_AT_ONCE: Final = 32
REMOVED_AT_ONCE: Final = 50  # directories renamed between two turns of the loop
DAMAGED_BITS_MAX: Final = 8
UNUSED_CHECK_MS: Final = 10
PREFERRED_DIRS_MAX: Final = 100_000
FULL_SILENCE_MS: Final = 10_000  # between two lines about a full disk, which every request may meet

TopicPartition = tuple[str, int]


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
        on_offline: Callable[[str], None],
    ) -> None:
        self.log_dirs = log_dirs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.unmade: set[TopicPartition] = set()
        """Replicas that the disk had no room for."""
        self.offline: set[TopicPartition] = set()
        """Replicas in a log directory that has failed, or that may be in one."""
        self.preferred_dirs: dict[TopicPartition, str] = {}
        """Where clients want replicas to be made that do not exist yet (AlterReplicaLogDirs)."""
        self.on_log_dir_failed: Callable[[Collection[TopicPartition]], None] = lambda offline: None
        """Is told which replicas went offline with a directory, if the broker goes on; has the
        controller say again who leads what."""
        self.counters = Counters()
        self.deleting: set[Log] = set()
        """Logs whose old segments are being renamed, in a thread: they can't be moved now."""
        self.moving: set[Log] = set()
        """Logs that are being copied to another directory: they must keep all their segments."""
        self.cleaning: set[Log] = set()
        """Logs that are being compacted: their old segments stay for so long."""
        self.is_offline = False
        """Whether the broker has to stop: nothing is served any more."""
        self._full_silent_until_ms = 0
        self.group_commit = GroupCommit(self, runtime, tasks)
        self.deletions = Deletions(runtime, self.take_offline)
        self.moves = Moves(self, config, runtime, tasks)
        self.must_checkpoint = asyncio.Event()
        self.checkpoint_waiters: list[asyncio.Future[None]] = []
        """Who waits for the next checkpoint; answered by `Checkpointer`."""
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._topic_configs: dict[str, TopicConfig] = {}
        self._on_offline = on_offline
        self._config = config
        self._runtime = runtime
        self._tasks = tasks
        self._broker_id = broker_id

    async def leader_and_isr(
        self, states: Sequence[PartitionState], session: Session
    ) -> set[TopicPartition]:
        """Lead the partitions as the controller says; make the logs that do not exist yet.

        Returns those that are here, but offline (KAFKA_STORAGE_ERROR).
        """
        read: set[str] = set()
        missing: list[PartitionState] = []
        for state in states:
            key = state.topic, state.partition
            if self._broker_id not in state.replicas or key in self.offline:
                continue
            if state.topic not in read:
                read.add(state.topic)
                self.set_overrides(state.topic, await read_overrides(state.topic, session))
            partition = self.partitions.get(key)
            if partition is not None:
                partition.become(state, self._runtime.clock.now_ms())
            elif (kept := self._kept_log(state)) is not None:
                self._serve(kept, state)
            elif self.log_dirs.is_unserved(key):
                self.unmade.add(key)
            elif state.is_new or self.log_dirs.is_complete:
                missing.append(state)
            else:
                log.error("replica offline topic=%s partition=%d reason=%s", *key, _MAY_LIE_THERE)
                self.offline.add(key)
        missing = await self._forget_deleted(missing)
        # Thousands of files may have to be made: in threads, and some for each turn of the loop.
        starts = range(0, len(missing), MADE_AT_ONCE)
        await asyncio.gather(*(self._make(missing[i : i + MADE_AT_ONCE]) for i in starts))
        return {(state.topic, state.partition) for state in states} & self.offline

    # Settings, which may change at any time: here they are as they were last read.

    def topic_config(self, topic: str) -> TopicConfig:
        """The settings of a topic on this broker."""
        config = self._topic_configs.get(topic)
        if config is None:
            config = self._config.topic_config(self._overrides.get(topic))
            self._topic_configs[topic] = config
        return config

    def set_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        """These are the settings that a topic has of its own; they count from now on."""
        if self._overrides.get(topic) == overrides:
            return
        self._overrides[topic] = overrides
        self._topic_configs.pop(topic, None)
        for (name, _), partition in self.partitions.items():
            if name == topic:
                partition.configure(self.topic_config(topic))

    def update_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The same for a topic that may have no replica on this broker."""
        if topic in self._overrides:
            self.set_overrides(topic, overrides)

    def reconfigure(self) -> None:
        """The broker's own settings have changed, from which topics take what they do not set."""
        self._topic_configs.clear()
        for (topic, _), partition in self.partitions.items():
            partition.configure(self.topic_config(topic))

    def _kept_log(self, state: PartitionState) -> Log | None:
        """The log that was loaded, if it is of this very topic; one of another is set aside."""
        kept = self.log_dirs.find(state.topic, state.partition)
        if kept is None or kept.topic_id == state.topic_id:
            return kept
        if kept.topic_id is None or _is_damaged(kept.topic_id, state.topic_id):
            log.warning("topic id was unreadable, written anew directory=%s", kept.directory)
            try:
                kept.write_topic_id(state.topic_id)
            except LogDirFailed as error:
                self.take_offline(error)
            return kept
        try:
            uuid = self._runtime.random.randbytes(16)
            data_dir = self.log_dirs.holding(kept)
            directory = data_dir.set_aside(state.topic, state.partition, uuid)
        except LogDirFailed as error:
            self.take_offline(error)
        else:
            log.error("log of another topic with this name is set aside directory=%s", directory)
        return None

    async def _forget_deleted(self, missing: list[PartitionState]) -> list[PartitionState]:
        """See to it that new logs don't inherit the offsets of deleted ones; which can be made."""

        def remembered() -> list[PartitionState]:
            known = [data_dir.remembered for data_dir in self.log_dirs.online]
            return [s for s in missing if any((s.topic, s.partition) in keys for keys in known)]

        if not remembered():
            return missing
        with contextlib.suppress(LogDirFailed):  # a directory that is full may be another one
            await self.checkpoint()
        left = {(state.topic, state.partition) for state in remembered()}
        self.unmade |= left
        return [state for state in missing if (state.topic, state.partition) not in left]

    async def _make(
        self, missing: Sequence[PartitionState], tried: Collection[DataDir] = ()
    ) -> None:
        """`tried`: directories that had no room or have failed."""
        made: list[tuple[PartitionState, DataDir, CreatePlan]] = []
        for state in missing:
            data_dir = self._dir_for(state, tried)
            if data_dir is None:
                self.unmade.add((state.topic, state.partition))
                continue
            await self.until_unused(f"{data_dir.path}/{state.topic}-{state.partition}")
            plan = data_dir.create_plan(
                state.topic,
                state.partition,
                topic_id=state.topic_id,
                config=self.topic_config(state.topic).log_config,
                leader_epoch=state.leader_epoch,
            )
            made.append((state, data_dir, plan))
        await self._runtime.offload(_run_all, [plan for _, _, plan in made])
        again = []
        for state, data_dir, plan in made:
            if plan.error is None:
                self.preferred_dirs.pop((state.topic, state.partition), None)
                self.unmade.discard((state.topic, state.partition))
                self._serve(data_dir.created(plan), state)
                continue
            data_dir.not_created()
            self.take_offline(plan.error)
            again.append(state)
            tried = {*tried, data_dir}
        if again:
            await self._make(again, tried)

    async def until_unused(self, directory: str) -> None:
        """Wait for threads that rename files of a log that was there, of a topic that is deleted.

        They know the files by their names, which a new log's files would have too.
        """
        while any(  # noqa: ASYNC110 - it hardly ever happens, and then for milliseconds
            kept.directory == directory for kept in (*self.cleaning, *self.deleting)
        ):
            await asyncio.sleep(UNUSED_CHECK_MS / 1000)

    def prefer_dir(self, key: TopicPartition, path: str) -> None:
        """Make a replica there, should it be made; Kafka too remembers this until it stops."""
        self.preferred_dirs.pop(key, None)
        self.preferred_dirs[key] = path
        if len(self.preferred_dirs) > PREFERRED_DIRS_MAX:
            del self.preferred_dirs[next(iter(self.preferred_dirs))]

    def _dir_for(self, state: PartitionState, tried: Collection[DataDir]) -> DataDir | None:
        """Where to make a replica: where somebody wants it, or where the fewest are."""
        wanted = self.preferred_dirs.get((state.topic, state.partition))
        for data_dir in self.log_dirs.for_new_partition():
            if data_dir not in tried and wanted in (None, data_dir.path):
                return data_dir
        return None

    def _serve(self, kept: Log, state: PartitionState) -> None:
        try:
            config, begin_flush = self.topic_config(state.topic), self.group_commit.begin
            now_ms = self._runtime.clock.now_ms()
            partition = Partition(kept, config, state, self._broker_id, begin_flush, now_ms=now_ms)
        except LogDirFailed as error:
            self.take_offline(error)
            return
        self.partitions[state.topic, state.partition] = partition

    async def stop_replicas(self, topic: str) -> None:
        """Stop serving a topic; its logs are out of the way at once and unlinked later."""
        self._stop_serving([key for key in self.partitions if key[0] == topic])
        self._overrides.pop(topic, None)
        self._topic_configs.pop(topic, None)
        kept_logs = [kept for kept in self.log_dirs.all_logs() if kept.topic == topic]
        for number, kept in enumerate(kept_logs):
            if number % REMOVED_AT_ONCE == REMOVED_AT_ONCE - 1:
                await asyncio.sleep(0)
            self._remove(kept)
        for keys in (self.unmade, self.offline):
            keys -= {key for key in keys if key[0] == topic}
        self._set_unserved_aside(topic)

    def _set_unserved_aside(self, topic: str) -> None:
        """What could not be loaded is no topic's any more, but still somebody's data."""
        for data_dir in self.log_dirs.online:
            for key in [key for key in data_dir.unserved if key[0] == topic]:
                try:
                    path = data_dir.set_unserved_aside(*key, self._runtime.random.randbytes(16))
                except LogDirFailed as error:
                    self.take_offline(error)
                else:
                    log.warning("partition of a deleted topic is set aside directory=%s", path)

    def _stop_serving(self, keys: Iterable[TopicPartition]) -> None:
        for partition in [self.partitions.pop(key) for key in keys if key in self.partitions]:
            partition.is_leader = False
            partition.wake()

    async def checkpoint(self) -> None:
        """Have the checkpoints written as of now; return when they are safe on disk.

        Raises: DiskFull, LogDirFailed.
        """
        written = asyncio.get_running_loop().create_future()
        self.checkpoint_waiters.append(written)
        self.must_checkpoint.set()
        await written

    def _remove(self, kept: Log) -> None:
        data_dir, key = self.log_dirs.of(kept.directory), (kept.topic, kept.partition)
        if data_dir is None:  # it has failed meanwhile
            return
        is_future = data_dir.futures.get(key) is kept
        if not (is_future or data_dir.logs.get(key) is kept):  # a move was cancelled meanwhile
            return
        uuid = self._runtime.random.randbytes(16)
        try:
            plan = (data_dir.delete_future if is_future else data_dir.delete_log)(*key, uuid)
        except LogDirFailed as error:
            self.take_offline(error)
            return
        self.must_checkpoint.set()  # or a new partition of that name would inherit the offsets
        self.deletions.add(plan, self._config.log_segment_delete_delay_ms)

    def note_failure(self, error: StorageError) -> None:
        """Storage could not do what a client asked for; a failed disk takes its replicas along."""
        if isinstance(error, LogDirFailed):
            self.take_offline(error)
        elif isinstance(error, CorruptLog) and not isinstance(error, DamagedRecords):
            log.error("log is corrupt: %s", error)

    def take_offline(self, error: LogDirFailed) -> None:
        """The log directory can't be trusted any more: nothing of it is served from here on.

        A disk that is only full is another matter: the write that failed was undone.
        """
        if self.is_offline:
            return
        data_dir = self.log_dirs.of(error.path) if error.path else self.log_dirs.first
        if data_dir is None:  # it is known already
            return
        if isinstance(error, DiskFull):
            now_ms = self._runtime.clock.now_ms()
            if now_ms >= self._full_silent_until_ms:
                self._full_silent_until_ms = now_ms + FULL_SILENCE_MS
                log.error("disk full path=%s error=%s", data_dir.path, error)
            return
        log.critical("log directory offline path=%s error=%s", data_dir.path, error)
        if data_dir is self.log_dirs.first:
            self._end(error)
        else:
            self._fail(data_dir)

    def _end(self, error: LogDirFailed) -> None:
        """No directory is left, or the one with the broker's own store is gone."""
        self.is_offline = True
        only = len(self.log_dirs.paths) == 1
        which = "the only log directory" if only else "the first log directory, with the store,"
        self._on_offline(f"{which} is offline: {error}")
        self._stop_serving(list(self.partitions))

    def _fail(self, data_dir: DataDir) -> None:
        keys = data_dir.logs.keys() - self.offline
        self.log_dirs.fail(data_dir)
        self.offline |= keys
        self._stop_serving(keys)
        log.critical("replicas offline path=%s count=%d", data_dir.path, len(keys))
        self.on_log_dir_failed(keys)


_MAY_LIE_THERE: Final = "it may lie in a log directory that has failed"


def _is_damaged(topic_id: bytes, expected: bytes) -> bool:
    """Whether an id is another only in some bits: ids are random, so two are never that near."""
    differing = int.from_bytes(topic_id, "big") ^ int.from_bytes(expected, "big")
    return differing.bit_count() <= DAMAGED_BITS_MAX


def _run_all(plans: Sequence[CreatePlan]) -> None:
    for plan in plans:
        plan.run()


async def read_overrides(topic: str, session: Session) -> dict[str, str]:
    """The settings of a topic that differ from the broker's."""
    try:
        data, _ = await session.get(znodes.topic_config_path(topic))
    except NoNode:
        return {}
    return znodes.decode_config(data)
