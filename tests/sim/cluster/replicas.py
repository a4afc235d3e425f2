"""The replicas of a simulated broker: the real ones, with real logs on disks in memory.

What the broker has threads and tasks for happens here by and by: fsyncs, checkpoints, deletions.
Between their beginning and their end anything may happen.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from odradek.broker.config import Config
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.broker.metrics.counters import Counters
from odradek.broker.partitions.deletions import Deletions, Plan
from odradek.broker.partitions.replica_logs import ReplicaLogs, Serve
from odradek.broker.partitions.replicas import Replicas
from odradek.broker.partitions.shared_flushes import SharedFlushes
from odradek.broker.partitions.suspects import Suspects
from odradek.broker.replication.taking import Taking
from odradek.broker.runtime import Runtime
from odradek.broker.settings.topic_config import TopicConfig
from odradek.broker.tasks import TaskSupervisor
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log
from odradek.storage.log.plans import CheckpointPlan, FlushPlan
from odradek.storage.log.staging import Staged

from .world import NOTHING

if TYPE_CHECKING:
    from .broker import SimBroker

CHECKPOINT_MS: Final = 400
FLUSH_MS: Final = 300
SYNC_MAX_MS: Final = 40

BROKER_SETTINGS: Final = {
    "log.index.interval.bytes": "150",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.max.bytes": "600",
    "log.segment.delete.delay.ms": "0",
}
CONFIG: Final = Config(BROKER_SETTINGS)
_topic_configs: dict[tuple[tuple[str, str], ...], TopicConfig] = {}


def topic_config(overrides: Mapping[str, str]) -> TopicConfig:
    """The settings of a topic; made once for all clusters."""
    key = tuple(overrides.items())
    if key not in _topic_configs:
        _topic_configs[key] = CONFIG.topic_config(overrides)
    return _topic_configs[key]


class SimReplicas(Replicas):
    """The replicas of one process."""

    def __init__(self, broker: "SimBroker", log_dirs: LogDirs) -> None:
        async def offload(do: Callable[..., Any], *arguments: Any) -> Any:
            return do(*arguments)

        runtime = cast(
            Runtime,
            SimpleNamespace(
                clock=broker.world,
                random=broker.world.random,
                offload=offload,
                files=broker.files,
            ),
        )
        super().__init__(
            log_dirs,
            CONFIG,
            runtime,
            cast(TaskSupervisor, None),
            broker_id=broker.broker_id,
            counters=Counters(),
            on_offline=lambda reason: cast(None, broker.crash(expires_ms=0)),
        )
        self._broker = broker
        self.logs = SimReplicaLogs(broker, self, runtime)
        commit = self.flushes = SimCommit(broker)
        self.deletions = cast(Deletions, SimDeletions(broker, self))
        self.suspects = SimSuspects(broker, self, runtime)
        self.upkeep = Upkeep(broker, self, commit)
        self.must_checkpoint = cast(Any, SimpleNamespace(set=self.upkeep.begin))

    def topic_config(self, topic: str) -> TopicConfig:
        return topic_config(self._broker.store.overrides[topic])

    async def read_overrides(self, topics: Iterable[str], session: object) -> None:
        pass

    async def checkpoint(self, data_dir: DataDir | None = None) -> None:
        self.upkeep.checkpoint()

    def stop_serving(self, keys: Iterable[TopicPartition]) -> None:
        keys = list(keys)
        super().stop_serving(keys)
        self._broker.stopped(keys)


class SimSuspects(Suspects):
    """The real ones; the note is written by and by."""

    def __init__(self, broker: "SimBroker", replicas: SimReplicas, runtime: Runtime) -> None:
        super().__init__(
            replicas,
            CONFIG,
            runtime,
            cast(TaskSupervisor, None),
            broker_id=broker.broker_id,
        )
        self._broker = broker

    def _write_soon(self) -> None:
        self._broker.soon(self._broker.world.random.randrange(SYNC_MAX_MS), self._note)

    def _ask_soon(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self._broker.soon(self._broker.world.random.randrange(100), self._asked)

    def _asked(self) -> object:
        return None if self._ask_if_needed() else NOTHING

    def _note(self) -> object:
        try:
            self._log_dirs.settle_suspicion()
            while (found := self._next()) is not None:
                suspicion, plan = found
                plan.run()
                suspicion.planned(plan)
        except LogDirFailed as error:
            self._replicas.note_failure(error)
        return NOTHING


class SimReplicaLogs(ReplicaLogs):
    """The real rules about which log is whose; made one after the other."""

    def __init__(self, broker: "SimBroker", replicas: SimReplicas, runtime: Runtime) -> None:
        super().__init__(replicas, CONFIG, runtime, broker.broker_id)
        self._broker = broker

    async def make(self, missing: Sequence[PartitionState], serve: Serve) -> None:
        for state in await self._forget_deleted(missing):
            self._broker.disks.drop_failed(state.key)  # two logs of a name would be another tale
            await self._make([state], serve)


class SimDeletions:
    """As `Deletions`."""

    def __init__(self, broker: "SimBroker", replicas: SimReplicas) -> None:
        self._broker = broker
        self._replicas = replicas

    def add(self, plan: Plan, delay_ms: int) -> None:
        """Have a plan run some time."""

        def unlink() -> object:
            try:
                plan.run()
            except LogDirFailed as error:
                self._replicas.take_offline(error)
            return NOTHING

        self._broker.soon(self._broker.world.random.randrange(200), unlink)


class SimCommit(SharedFlushes):
    """Flushes; each fsync takes its time."""

    def __init__(self, broker: "SimBroker") -> None:
        self._broker = broker
        self._begun: set[Partition] = set()

    def begin(self, partition: Partition) -> None:
        if partition not in self._begun:
            self._begun.add(partition)
            self._broker.soon(0, lambda: self._flush_due(partition))

    def _flush_due(self, partition: Partition) -> object:
        self._begun.discard(partition)
        served = self._broker.replicas.partitions.get(partition.state.key)
        if served is not partition or not partition.awaits_flush:
            return NOTHING
        return self.flush_slowly(partition)

    def flush_slowly(self, partition: Partition) -> object:
        """Have what the log holds now be known as safe a while later."""
        kept = partition.log
        plan = self._sync(kept)

        def end() -> object:
            if plan is not None:
                kept.flushed(plan)
            partition.flushed(self._broker.world.time_ms)
            if partition.awaits_flush:
                self.begin(partition)
            return None

        self._broker.soon(self._broker.world.random.randrange(1, SYNC_MAX_MS), end)
        return None

    def _sync(self, kept: Log) -> FlushPlan | None:
        plan = None
        try:
            plan = kept.flush_plan()
            if plan is not None:
                plan.run()
        except LogDirFailed as error:
            if plan is not None:
                plan.release()
            self._broker.replicas.take_offline(error)
            return None
        return plan

    async def flush(self, partition: Partition) -> bool:
        """At once: who awaits this is not to be interrupted."""
        kept = partition.log
        plan = self._sync(kept)
        if plan is not None:
            kept.flushed(plan)
        if self._broker.replicas.partitions.get(partition.state.key) is partition:
            partition.flushed(self._broker.world.time_ms)
        return True

    async def flush_all(self, partitions: Iterable[Partition]) -> list[bool]:
        """One after the other."""
        return [await self.flush(partition) for partition in partitions]


class Writing:
    """A thread's work that a coroutine waits for."""

    def __init__(self, staged: Staged) -> None:
        self.run = staged.run

    def __await__(self) -> Generator["Writing", None, None]:
        yield self


class SimTaking(Taking):
    """Writes by and by."""

    async def _written(self, staged: Staged) -> None:
        await Writing(staged)


class Upkeep:
    """Checkpoints and regular flushes."""

    def __init__(self, broker: "SimBroker", replicas: SimReplicas, commit: SimCommit) -> None:
        self._broker = broker
        self._commit = commit
        self._replicas = replicas
        self._planned: list[tuple[DataDir, CheckpointPlan]] = []
        self._is_begun = False

    def start(self) -> None:
        """From now on."""
        self._broker.soon(self._pause_ms(CHECKPOINT_MS), self._checkpoint_and_again)
        self._broker.soon(self._pause_ms(FLUSH_MS), self._flush_and_again)

    def _pause_ms(self, pause_ms: int) -> int:
        return pause_ms // 2 + self._broker.world.random.randrange(pause_ms)

    def _checkpoint_and_again(self) -> object:
        self._broker.soon(self._pause_ms(CHECKPOINT_MS), self._checkpoint_and_again)
        self.begin()
        return NOTHING

    def begin(self) -> None:
        """Write down what counts now; it takes some time to be on the disk."""
        if not self._is_begun:
            self._is_begun = True
            self._broker.soon(self._broker.world.random.randrange(10), self._plan)

    def _plan(self) -> object:
        self._is_begun = False
        if not self._planned:
            self._planned = [(d, d.checkpoint_plan()) for d in self._replicas.log_dirs.online]
            self._broker.soon(self._broker.world.random.randrange(1, SYNC_MAX_MS), self._write)
        return NOTHING

    def _write(self) -> object:
        planned, self._planned = self._planned, []
        for data_dir, plan in planned:
            if data_dir not in self._replicas.log_dirs.online:
                continue
            try:
                plan.run()
            except LogDirFailed as error:
                self._replicas.take_offline(error)
            else:
                data_dir.checkpointed(plan)
        return NOTHING

    def checkpoint(self) -> None:
        """What is under way, then everything as of now, at once."""
        self._write()
        self._planned = [(d, d.checkpoint_plan()) for d in self._replicas.log_dirs.online]
        self._write()

    def _flush_and_again(self) -> object:
        self._broker.soon(self._pause_ms(FLUSH_MS), self._flush_and_again)
        if self._broker.world.random.random() < 0.5:
            return NOTHING
        for partition in list(self._replicas.partitions.values()):
            if self._broker.world.random.random() < 0.5:
                self._commit.flush_slowly(partition)
        return NOTHING
