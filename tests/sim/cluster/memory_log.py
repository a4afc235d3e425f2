"""Logs in memory, and the replicas of a simulated broker on two disks of it.

A log behaves as `odradek.storage.log.Log` does where partitions look; a record is its leader epoch
and a number. What a process has appended is still there when it was killed.
"""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from odradek.broker.config import Config
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.broker.renewals import Verdict
from odradek.broker.replica_logs import ReplicaLogs, Serve
from odradek.broker.replicas import Replicas
from odradek.broker.runtime import Runtime
from odradek.broker.settings.topic_config import TopicConfig
from odradek.storage.errors import OffsetOutOfRange
from odradek.storage.files import FileSystem
from odradek.storage.following import Appended
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log import Log

from .world import World

NEVER: Final = 1 << 60

Record = tuple[int, int]
"""Leader epoch and number."""


class MemorySpan(NamedTuple):
    """Records that were read."""

    records: list[Record]
    next_offset: int
    size_bytes: int


class MemoryLog:
    """One replica's records; `epochs` are the real ones, without a file."""

    recovery_point = NEVER

    def __init__(self, state: PartitionState, directory: str) -> None:
        self.topic = state.topic
        self.partition = state.partition
        self.topic_id: bytes | None = state.topic_id
        self.directory = directory
        self.records: list[Record] = []
        self.epochs = LeaderEpochs(cast(FileSystem, None), directory)
        self.config: object = None
        self.flushing = self
        self.generation = 0
        self.log_start_offset = 0
        self.kept_high_watermark = 0
        """What the checkpoint says."""
        self.taken_epoch = -1
        """The latest leader epoch in which this replica has taken a role."""
        self._high_watermark = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        if offset > self._high_watermark:
            self._high_watermark = min(offset, len(self.records))

    @property
    def last_stable_offset(self) -> int:
        return self._high_watermark

    def append(self, batch: Any, header: Any, *, leader_epoch: int, wall_ms: int) -> int:
        base_offset = len(self.records)
        self._add((leader_epoch, batch))
        return base_offset

    def append_as_follower(self, batches: Any, *, epoch_max: int, **limits: Any) -> Appended:
        offset_first = len(self.records)
        for record in batches:
            if record[0] > epoch_max:
                break
            self._add(record)
        return Appended(offset_first, len(self.records), len(self.records) - offset_first)

    def _add(self, record: Record) -> None:
        if record[0] != self.epochs.latest:
            self.epochs.assign(record[0], len(self.records), write=False)
        self.records.append(record)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, len(self.records), write=False)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset(leader_epoch, len(self.records))

    def read(
        self, offset: int, *, size_bytes_max: int, offset_end: int, at_least_one: bool = True
    ) -> MemorySpan | None:
        end = len(self.records)
        if not 0 <= offset <= end:
            raise OffsetOutOfRange(offset, 0, end)
        found = self.records[offset : min(offset_end, offset + size_bytes_max)]
        return MemorySpan(found, offset + len(found), len(found)) if found else None

    def truncate(self, offset: int) -> None:
        if offset >= len(self.records):
            self.epochs.truncate_end(len(self.records), write=False)
            return
        del self.records[offset:]
        self._high_watermark = min(self._high_watermark, offset)
        self.kept_high_watermark = min(self.kept_high_watermark, offset)
        self.epochs.truncate_end(offset, write=False)
        self.generation += 1

    def reload(self) -> None:
        """A process has ended, another one begins with what the disk has."""
        self._high_watermark = self.kept_high_watermark
        self.taken_epoch = -1


class Disk:
    """A log directory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.has_failed = False

    def set_aside(self, topic: str, partition: int, uuid: bytes) -> str:
        """The log is no topic's any more."""
        return self.logs.pop((topic, partition)).directory


class Disks:
    """As `LogDirs`, as far as roles look."""

    def __init__(self) -> None:
        self.all = (Disk("a"), Disk("b"))

    @property
    def online(self) -> list[Disk]:
        return [disk for disk in self.all if not disk.has_failed]

    @property
    def is_complete(self) -> bool:
        return len(self.online) == len(self.all)

    def is_unserved(self, key: TopicPartition) -> bool:
        return False

    def find(self, topic: str, partition: int) -> MemoryLog | None:
        for disk in self.online:
            if (topic, partition) in disk.logs:
                return disk.logs[topic, partition]
        return None

    def holding(self, kept: MemoryLog) -> Disk:
        return next(disk for disk in self.all if disk.path == kept.directory)

    def drop(self, key: TopicPartition, *, also_failed: bool = False) -> None:
        for disk in self.all if also_failed else self.online:
            disk.logs.pop(key, None)


class MemoryReplicaLogs(ReplicaLogs):
    """The real rules about which log is whose; made and deleted at once."""

    def __init__(self, disks: Disks, replicas: "MemoryReplicas", world: World) -> None:
        runtime = cast(Runtime, SimpleNamespace(random=world.random))
        super().__init__(cast(Replicas, replicas), cast(Config, None), runtime, 0)
        self._disks = disks
        self._chance = world.random

    async def make(self, missing: Sequence[PartitionState], serve: Serve) -> None:
        for state in missing:
            disk = self._chance.choice(self._disks.online)
            self._disks.drop(state.key, also_failed=True)  # two of them would be another tale
            kept = disk.logs[state.key] = MemoryLog(state, disk.path)
            serve(cast(Log, kept), state)

    async def delete(self, key: TopicPartition) -> None:
        self._disks.drop(key)


class MemoryReplicas:
    """As `Replicas`, as far as `Roles` and `stop` look."""

    is_offline = False

    def __init__(
        self, broker_id: int, disks: Disks, world: World, end: Callable[[TopicPartition], None]
    ) -> None:
        """`end` is told of replicas that are served no more."""
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: set[TopicPartition] = set()
        self.unmade: set[TopicPartition] = set()
        self.log_dirs = disks
        self.logs = MemoryReplicaLogs(disks, self, world)
        # These disks lose and damage nothing that was written.
        self.renewals = SimpleNamespace(
            judge=lambda state, live: Verdict.TAKE, stopped=lambda key: None
        )
        self.suspects = SimpleNamespace(
            may_lead=lambda state, kept: True,
            role_taken=lambda partition: None,
            told=lambda states: None,
            forget=lambda key: None,
        )
        self._broker_id = broker_id
        self._world = world
        self._end = end
        self._config = cast(
            TopicConfig,
            SimpleNamespace(log_config=None, flush_messages=NEVER, min_insync_replicas=1),
        )

    async def read_overrides(self, topics: Iterable[str], session: object) -> None:
        pass

    def forget_overrides(self, topics: object) -> None:
        pass

    def serve(self, kept: Log, state: PartitionState) -> bool:
        self.partitions[state.key] = Partition(
            kept,
            self._config,
            state,
            self._broker_id,
            lambda partition: None,
            now_ms=self._world.time_ms,
        )
        return True

    def stop_serving(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            partition = self.partitions.pop(key, None)
            if partition is not None:
                partition.is_leader = False
                partition.wake()
                self._end(key)
