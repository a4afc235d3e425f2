"""The replicas on this broker: made, led and deleted as the controller says, and kept on disk.

The data directory loads what lies there when the broker starts; a log is served once the controller
has named its leader. A directory that the controller never names is left untouched.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.storage.data_dir import CreatePlan, DataDir
from odradek.storage.errors import CorruptLog, DiskFull, LogDirFailed, StorageError
from odradek.storage.log import Log

from .config import Config
from .coordination import znodes
from .coordination.interface import NoNode, Session
from .core.partition import Partition
from .core.partition_state import PartitionState
from .counters import Counters
from .deletions import Deletions
from .group_commit import GroupCommit
from .runtime import Runtime
from .settings.topic_config import TopicConfig
from .tasks import TaskSupervisor

log = logging.getLogger(__name__)

MADE_AT_ONCE: Final = 32
FULL_SILENCE_MS: Final = 10_000  # between two lines about a full disk, which every request may meet


class Replicas:
    """All replicas, by (topic, partition)."""

    def __init__(
        self,
        data_dir: DataDir,
        config: Config,
        runtime: Runtime,
        tasks: TaskSupervisor,
        *,
        broker_id: int,
        on_offline: Callable[[str], None],
    ) -> None:
        self.data_dir = data_dir
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.unmade: set[tuple[str, int]] = set()
        """Replicas that the disk had no room for."""
        self.counters = Counters()
        self.cleaning: set[Log] = set()
        """Logs that are being compacted: their old segments stay for so long."""
        self.is_offline = False
        self._full_silent_until_ms = 0
        self.group_commit = GroupCommit(self, runtime, tasks)
        self.deletions = Deletions(runtime, self.take_offline)
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

    async def leader_and_isr(self, states: Sequence[PartitionState], session: Session) -> None:
        """Lead the partitions as the controller says; make the logs that do not exist yet."""
        read: set[str] = set()
        missing: list[PartitionState] = []
        for state in states:
            if self._broker_id not in state.replicas:
                continue
            if state.topic not in read:
                read.add(state.topic)
                self.set_overrides(state.topic, await read_overrides(state.topic, session))
            partition = self.partitions.get((state.topic, state.partition))
            if partition is not None:
                partition.become(state)
            elif (kept := self._kept_log(state)) is not None:
                self._serve(kept, state)
            elif (state.topic, state.partition) in self.data_dir.unserved:
                self.unmade.add((state.topic, state.partition))
            else:
                missing.append(state)
        # Thousands of files may have to be made: in threads, and some for each turn of the loop.
        starts = range(0, len(missing), MADE_AT_ONCE)
        await asyncio.gather(*(self._make(missing[i : i + MADE_AT_ONCE]) for i in starts))

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
        kept = self.data_dir.logs.get((state.topic, state.partition))
        if kept is None or kept.topic_id in (None, state.topic_id):
            return kept
        try:
            uuid = self._runtime.random.randbytes(16)
            directory = self.data_dir.set_aside(state.topic, state.partition, uuid)
        except LogDirFailed as error:
            self.take_offline(error)
        else:
            log.error("log of another topic with this name is set aside directory=%s", directory)
        return None

    async def _make(self, missing: Sequence[PartitionState]) -> None:
        plans = [
            self.data_dir.create_plan(
                state.topic,
                state.partition,
                topic_id=state.topic_id,
                config=self.topic_config(state.topic).log_config,
                leader_epoch=state.leader_epoch,
            )
            for state in missing
        ]
        await self._runtime.offload(_run_all, plans)
        for plan, state in zip(plans, missing, strict=True):
            if plan.error is None:
                self._serve(self.data_dir.created(plan), state)
            else:
                self.unmade.add((state.topic, state.partition))
                self.take_offline(plan.error)

    def _serve(self, kept: Log, state: PartitionState) -> None:
        try:
            config, begin_flush = self.topic_config(state.topic), self.group_commit.begin
            partition = Partition(kept, config, state, self._broker_id, begin_flush)
        except LogDirFailed as error:
            self.take_offline(error)
            return
        self.partitions[state.topic, state.partition] = partition

    async def stop_replicas(self, topic: str) -> None:
        """Stop serving a topic; its logs are out of the way at once and unlinked later."""
        for key in [key for key in self.partitions if key[0] == topic]:
            partition = self.partitions.pop(key)
            partition.is_leader = False
            partition.wake()
        self._overrides.pop(topic, None)
        self._topic_configs.pop(topic, None)
        self.unmade = {key for key in self.unmade if key[0] != topic}
        for kept in [kept for kept in self.data_dir.logs.values() if kept.topic == topic]:
            self._remove(kept)

    async def checkpoint(self) -> None:
        """Have the checkpoints written as of now; return when they are safe on disk.

        Raises: DiskFull, LogDirFailed.
        """
        written = asyncio.get_running_loop().create_future()
        self.checkpoint_waiters.append(written)
        self.must_checkpoint.set()
        await written

    def _remove(self, kept: Log) -> None:
        try:
            uuid = self._runtime.random.randbytes(16)
            plan = self.data_dir.delete_log(kept.topic, kept.partition, uuid)
        except LogDirFailed as error:
            self.take_offline(error)
            return
        self.must_checkpoint.set()  # or a new partition of that name would inherit the offsets
        self.deletions.add(plan, self._config.log_segment_delete_delay_ms)

    def note_failure(self, error: StorageError) -> None:
        """Storage could not do what a client asked for; a failed disk takes everything offline."""
        if isinstance(error, LogDirFailed):
            self.take_offline(error)
        elif isinstance(error, CorruptLog):
            log.error("log is corrupt: %s", error)

    def take_offline(self, error: LogDirFailed) -> None:
        """The log directory can't be trusted any more: nothing of it is served from here on.

        A disk that is only full is another matter: the write that failed was undone.
        """
        if self.is_offline:
            return
        if isinstance(error, DiskFull):
            now_ms = self._runtime.clock.now_ms()
            if now_ms >= self._full_silent_until_ms:
                self._full_silent_until_ms = now_ms + FULL_SILENCE_MS
                log.error("disk full path=%s error=%s", self.data_dir.path, error)
            return
        self.is_offline = True
        log.critical("log directory offline path=%s error=%s", self.data_dir.path, error)
        self._on_offline(f"the only log directory is offline: {error}")
        partitions, self.partitions = self.partitions, {}
        for partition in partitions.values():
            partition.is_leader = False
            partition.wake()


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
