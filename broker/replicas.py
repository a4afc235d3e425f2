"""The replicas on this broker: made, led and deleted as the controller says, and kept on disk.

The data directory loads what lies there when the broker starts; a log is served once the controller
has named its leader. A directory that the controller never names is left untouched.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from odradek.storage.data_dir import DataDir
from odradek.storage.errors import CorruptLog, DiskFull, LogDirFailed, StorageError
from odradek.storage.log import Log
from odradek.storage.plans import DeletePlan

from .config import Config
from .coordination import znodes
from .coordination.interface import NoNode, Session
from .core.partition import Partition
from .core.partition_state import PartitionState
from .runtime import Runtime
from .tasks import TaskSupervisor
from .topic_settings import TopicConfig

log = logging.getLogger(__name__)

MADE_PER_TURN_MAX: Final = 50  # of the loop, so that a large topic does not stop other clients


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
        self.is_offline = False
        self.must_checkpoint = asyncio.Event()
        self._on_offline = on_offline
        self._config = config
        self._runtime = runtime
        self._tasks = tasks
        self._broker_id = broker_id

    async def leader_and_isr(self, states: Sequence[PartitionState], session: Session) -> None:
        """Lead the partitions as the controller says; make the logs that do not exist yet."""
        configs: dict[str, TopicConfig] = {}
        for count, state in enumerate(states, start=1):
            if self._broker_id not in state.replicas:
                continue
            if state.topic not in configs:
                configs[state.topic] = await self._topic_config(state.topic, session)
            partition = self.partitions.get((state.topic, state.partition))
            if partition is not None:
                partition.become(state)
                continue
            self._serve(state, configs[state.topic])
            if count % MADE_PER_TURN_MAX == 0:
                await asyncio.sleep(0)

    def _serve(self, state: PartitionState, config: TopicConfig) -> None:
        try:
            kept = self._open_log(state, config)
            self.partitions[state.topic, state.partition] = Partition(
                kept, config, state, self._broker_id
            )
        except LogDirFailed as error:
            self.take_offline(error)

    def _open_log(self, state: PartitionState, config: TopicConfig) -> Log:
        """The log that was loaded, if it is of this very topic, or a new one."""
        kept = self.data_dir.logs.get((state.topic, state.partition))
        if kept is not None and kept.topic_id not in (None, state.topic_id):
            log.error(
                "replica of another topic id topic=%s partition=%d is deleted",
                state.topic,
                state.partition,
            )
            self._remove(kept)
            kept = None
        if kept is None:
            return self.data_dir.create_log(
                state.topic, state.partition, topic_id=state.topic_id, config=config.log_config
            )
        kept.config = config.log_config
        return kept

    async def _topic_config(self, topic: str, session: Session) -> TopicConfig:
        return self._config.topic_config(await read_overrides(topic, session))

    async def stop_replicas(self, topic: str) -> None:
        """Stop serving a topic; its logs are out of the way at once and unlinked in a thread."""
        for key in [key for key in self.partitions if key[0] == topic]:
            partition = self.partitions.pop(key)
            partition.is_leader = False
            partition.wake()
        for kept in [kept for kept in self.data_dir.logs.values() if kept.topic == topic]:
            self._remove(kept)

    def _remove(self, kept: Log) -> None:
        try:
            uuid = self._runtime.random.randbytes(16)
            plan = self.data_dir.delete_log(kept.topic, kept.partition, uuid)
        except LogDirFailed as error:
            self.take_offline(error)
            return
        self.must_checkpoint.set()  # or a new partition of that name would inherit the offsets
        self._tasks.spawn(self.unlink(plan), f"delete {kept.topic}-{kept.partition}")

    async def unlink(self, plan: DeletePlan) -> None:
        """Run a plan that `DataDir` made for a deleted directory."""
        try:
            await self._runtime.offload(plan.run)
        except LogDirFailed as error:
            self.take_offline(error)

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
            log.error("disk full path=%s error=%s", self.data_dir.path, error)
            return
        self.is_offline = True
        log.critical("log directory offline path=%s error=%s", self.data_dir.path, error)
        self._on_offline(f"the only log directory is offline: {error}")
        partitions, self.partitions = self.partitions, {}
        for partition in partitions.values():
            partition.is_leader = False
            partition.wake()


async def read_overrides(topic: str, session: Session) -> dict[str, str]:
    """The settings of a topic that differ from the broker's."""
    try:
        data, _ = await session.get(znodes.topic_config_path(topic))
    except NoNode:
        return {}
    return znodes.decode_config(data)
