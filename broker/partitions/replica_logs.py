"""Finds, creates, sets aside and deletes the logs of the replicas on this broker.

A deleted log is renamed at once and unlinked later, so that its name is free for another log.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.protocol.primitives import ZERO_UUID
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import LogDirFailed, StorageError
from odradek.storage.log.log import Log
from odradek.storage.log.plans import CreatePlan, FlushPlan, create_together

from ..config import Config
from ..core.log_uses import Act, Use
from ..core.partition_state import PartitionState, TopicPartition
from ..core.replica_status import Event
from ..core.role_rules import UNKNOWN_EPOCH
from ..runtime import Runtime

if TYPE_CHECKING:
    from .replicas import Replicas

logger = logging.getLogger(__name__)

MADE_AT_ONCE: Final = 32
MAKERS_MAX: Final = 2  # threads used at most; the others are for flushes that responses wait for
DAMAGED_BITS_MAX: Final = 8
USE_CHECK_MS: Final = 10
PREFERRED_DIRS_MAX: Final = 100_000

Serve = Callable[[Log, PartitionState], None]


class ReplicaLogs:
    """Finds, creates and deletes logs; failures show in the status of the replica."""

    def __init__(
        self, replicas: "Replicas", config: Config, runtime: Runtime, broker_id: int
    ) -> None:
        self.preferred_dirs: dict[TopicPartition, str] = {}
        """The directories that clients want for replicas not created yet (AlterReplicaLogDirs)."""
        self._given_ids: list[Log] = []
        self._replicas = replicas
        self._config = config
        self._runtime = runtime
        self._broker_id = broker_id

    # Finding logs.

    def topic_id(self, state: PartitionState) -> bytes | None:
        """The topic id in a replica's log; None if there is no log or no legible id.

        A new replica can't have a log yet, so an existing one is ignored.
        """
        served = self._replicas.partitions.get(state.key)
        if served is not None:
            return served.log.topic_id
        log = self._replicas.log_dirs.find(*state.key)
        if log is None or state.is_new or not _is_legible(log.topic_id, state.topic_id):
            return None
        return log.topic_id

    def find(self, state: PartitionState) -> Log | None:
        """The log that was loaded for a replica, or None; a log of another topic is set aside."""
        log = self._replicas.log_dirs.find(*state.key)
        if log is None or state.topic_id in (log.topic_id, ZERO_UUID):
            return self._without_gap(log, state)
        if not _is_legible(log.topic_id, state.topic_id):
            logger.warning("topic id was unreadable, written again directory=%s", log.directory)
            self.assign_topic_id(log, state.topic_id)
            if self._replicas.log_dirs.of(log.directory) is None:  # the write failed
                return None
            return self._without_gap(log, state)
        try:
            uuid = self._runtime.random.randbytes(16)
            data_dir = self._replicas.log_dirs.holding(log)
            directory = data_dir.set_aside(*state.key, uuid)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
        else:
            self._replicas.suspects.forget(state.key)
            logger.error("log of another topic with this name is set aside directory=%s", directory)
        return None

    def _without_gap(self, log: Log | None, state: PartitionState) -> Log | None:
        """Truncate a log at a gap left by a power failure, if there are other replicas.

        A follower would never fetch records before its log end. As after any truncation, the log
        must be made safe before anything is appended (`Use.CUT`).
        """
        gap_offset = None if log is None or log.loaded is None else log.loaded.gap_offset
        if log is None or log.loaded is None or gap_offset is None or len(state.replicas) < 2:
            return log
        if gap_offset < log.segments.first_offset and state.leader == self._broker_id:
            return log  # it begins after the gap: a cut would empty what may be the last copy
        replicas, generation = self._replicas, log.generation
        logger.error("log cut at a gap log=%r offset=%d", log, gap_offset)
        try:
            log.truncate(gap_offset)
        except StorageError as error:
            replicas.note_failure(error)
            if not self._is_ours(log):
                return None
        if log.generation != generation:
            log.loaded.gap_offset = None
            replicas.uses.begin(log, Use.CUT)
            replicas.must_checkpoint.set()
        return log

    def assign_topic_id(self, log: Log, topic_id: bytes) -> None:
        """Write the topic id of a log that has none; `sync_ids` makes it durable."""
        try:
            log.write_topic_id(topic_id)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
        else:
            self._given_ids.append(log)

    async def sync_ids(self) -> None:
        """Make assigned topic ids durable; thousands, if the logs are older than topic ids."""
        given, self._given_ids = self._given_ids, []
        for start in range(0, len(given), MADE_AT_ONCE):
            group = [log for log in given[start : start + MADE_AT_ONCE] if self._is_ours(log)]
            try:
                plans = [log.flushing.id_plan() for log in group]
                await self._runtime.offload(_run_all, plans)
            except LogDirFailed as error:
                self._replicas.take_offline(error)
                continue
            for log in group:
                log.flushing.id_is_safe()

    def _is_ours(self, log: Log) -> bool:
        return self._replicas.log_dirs.of(log.directory) is not None

    # Creating logs.

    def prefer_dir(self, key: TopicPartition, path: str) -> None:
        """Set the directory for a replica not created yet; in memory only, as in Kafka."""
        self.preferred_dirs.pop(key, None)
        self.preferred_dirs[key] = path
        if len(self.preferred_dirs) > PREFERRED_DIRS_MAX:
            del self.preferred_dirs[next(iter(self.preferred_dirs))]

    async def make(self, missing: Sequence[PartitionState], serve: Serve) -> None:
        """Create missing logs; `serve` is called for each.

        There may be thousands of files, so they are created in threads, in groups.
        """
        missing = await self._forget_deleted(missing)
        starts = range(0, len(missing), MADE_AT_ONCE)
        groups = iter([missing[start : start + MADE_AT_ONCE] for start in starts])

        async def make_some() -> None:
            for group in groups:
                await self._make(group, serve)

        await asyncio.gather(*(make_some() for _ in starts[:MAKERS_MAX]))

    async def _forget_deleted(self, missing: Sequence[PartitionState]) -> Sequence[PartitionState]:
        """Keep new logs from inheriting offsets of deleted ones; return the logs to create."""
        log_dirs = self._replicas.log_dirs

        def remembered() -> set[TopicPartition]:
            known = [data_dir.remembered for data_dir in log_dirs.online]
            return {state.key for state in missing if any(state.key in keys for keys in known)}

        if not remembered():
            return missing
        with contextlib.suppress(LogDirFailed):  # it may be another directory that is full
            await self._replicas.checkpoint()
        left = remembered()
        for key in left:
            self._replicas.statuses.note(key, Event.LACK_LOG)
        return [state for state in missing if state.key not in left]

    async def _make(
        self, missing: Sequence[PartitionState], serve: Serve, tried: Collection[DataDir] = ()
    ) -> None:
        """`tried`: directories that had no room or have failed."""
        replicas = self._replicas
        made: list[tuple[PartitionState, DataDir, CreatePlan]] = []
        for state in missing:
            data_dir = self._dir_for(state.key, tried)
            if data_dir is None:
                replicas.statuses.note(state.key, Event.LACK_LOG)
                continue
            leads = state.leader == self._broker_id
            plan = data_dir.create_plan(
                state.topic,
                state.partition,
                topic_id=None if state.topic_id == ZERO_UUID else state.topic_id,
                config=replicas.topic_config(state.topic).log_config,
                epoch=state.leader_epoch if leads else UNKNOWN_EPOCH,
            )
            made.append((state, data_dir, plan))
        await self._runtime.offload(create_together, [plan for _, _, plan in made])
        again = []
        for state, data_dir, plan in made:
            if plan.log is not None and data_dir not in replicas.log_dirs.online:
                data_dir.not_created()  # the directory has failed meanwhile, with its other logs
                plan.log.abandon()
                logger.error("replica offline topic=%s partition=%d", *state.key)
                replicas.statuses.note(state.key, Event.FAIL_DIR)
                continue
            if plan.error is None:
                self.preferred_dirs.pop(state.key, None)
                serve(data_dir.created(plan), state)
                continue
            data_dir.not_created()
            replicas.take_offline(plan.error)
            again.append(state)
            tried = {*tried, data_dir}
        if again:
            await self._make(again, serve, tried)

    def _dir_for(self, key: TopicPartition, tried: Collection[DataDir]) -> DataDir | None:
        """The directory for a new replica: the preferred one, or the one with fewest replicas."""
        wanted = self.preferred_dirs.get(key)
        for data_dir in self._replicas.log_dirs.for_new_partition():
            if data_dir not in tried and wanted in (None, data_dir.path):
                return data_dir
        return None

    # Deleting logs.

    async def until_unused(self, log: Log) -> None:
        """Stop all tasks that compact the log or rename its segments, and wait for their end.

        They address files by name, and a new log's files would have the same names.
        """
        replicas = self._replicas
        for stop in replicas.on_given_up:
            stop(log)
        while not replicas.uses.may(Act.GIVE_UP, log):  # noqa: ASYNC110 - rare, short
            await asyncio.sleep(USE_CHECK_MS / 1000)

    async def delete(self, key: TopicPartition) -> None:
        """Delete the log of a replica that is no longer served, and its future log, if any.

        If the disk is full, it may have no room for the new name; then the log is still there.
        """
        log_dirs = self._replicas.log_dirs
        found, moving = log_dirs.find(*key), log_dirs.find_future(*key)
        for log in (found, None if moving is None else moving[1]):
            if log is not None:
                await self.until_unused(log)
                self._remove(log)
        self._set_unserved_aside(key)

    async def set_aside(self, key: TopicPartition) -> None:
        """Rename the damaged log of a replica that is no longer served; end its move, if any.

        Only then can a new log be created. If the directory fails, the replica's status shows it.
        If the disk is full, the log stays, and `LogDirs.find` still returns it.
        """
        log_dirs = self._replicas.log_dirs
        log, moving = log_dirs.find(*key), log_dirs.find_future(*key)
        if moving is not None:
            await self.until_unused(moving[1])
            self._remove(moving[1])
        if log is None:
            return
        await self.until_unused(log)
        data_dir = log_dirs.of(log.directory)
        if data_dir is None or data_dir.logs.get(key) is not log:
            return
        try:
            directory = data_dir.set_aside(*key, self._runtime.random.randbytes(16))
        except LogDirFailed as error:
            self._replicas.take_offline(error)
        else:
            self._replicas.uses.end(log, Use.CUT)
            self._replicas.damaged.set_aside(key, directory)

    def _remove(self, log: Log) -> None:
        data_dir, key = self._replicas.log_dirs.of(log.directory), (log.topic, log.partition)
        if data_dir is None:  # the directory has failed meanwhile
            return
        is_future = data_dir.futures.get(key) is log
        if not (is_future or data_dir.logs.get(key) is log):  # the move was cancelled meanwhile
            return
        uuid = self._runtime.random.randbytes(16)
        try:
            plan = (data_dir.delete_future if is_future else data_dir.delete_log)(*key, uuid)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            if is_future and data_dir.futures.pop(key, None) is log:
                log.abandon()  # so that no other topic of that name is moved into it
            return
        self._replicas.uses.end(log, Use.CUT)
        if not is_future:
            self._replicas.suspects.forget(key)
        # Otherwise a new partition of that name would inherit the offsets.
        self._replicas.must_checkpoint.set()
        self._replicas.deletions.add(plan, self._config.log_segment_delete_delay_ms)

    def _set_unserved_aside(self, key: TopicPartition) -> None:
        """Set aside a log that could not be loaded: its topic is deleted, but it holds data."""
        for data_dir in self._replicas.log_dirs.online:
            if key not in data_dir.unserved:
                continue
            try:
                path = data_dir.set_unserved_aside(*key, self._runtime.random.randbytes(16))
            except LogDirFailed as error:
                self._replicas.take_offline(error)
            else:
                logger.warning("partition of a deleted topic is set aside directory=%s", path)


def _is_legible(topic_id: bytes | None, expected: bytes) -> bool:
    """Whether an id can be trusted: one that differs from `expected` in only a few bits is damaged.

    Ids are random, so two valid ones always differ in more bits.
    """
    if topic_id is None or topic_id == ZERO_UUID:
        return False
    differing = int.from_bytes(topic_id, "big") ^ int.from_bytes(expected, "big")
    return differing == 0 or differing.bit_count() > DAMAGED_BITS_MAX


def _run_all(plans: Iterable[FlushPlan]) -> None:
    for plan in plans:
        plan.run()
