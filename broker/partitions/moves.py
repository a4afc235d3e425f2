"""Moves of replicas between the log directories of this broker (AlterReplicaLogDirs).

A move is a copy (`storage/directory/moving.py`) that catches up with the log while the log is
served, and then replaces it. A move is wanted as long as its copy exists on disk, so it continues
after a restart. `num.replica.alter.log.dirs.threads` moves run at a time; each is a task that
copies slices, and other work runs between them. Together they copy no faster than
`replica.alter.log.dirs.io.max.bytes.per.second`.

Meanwhile the log is neither compacted nor are its old segments deleted (`Use.MOVES`): the
copy would miss what replaced them.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.moving import Copy, future_directory, give_final_name, retire
from odradek.storage.errors import CorruptLog, DiskFull, LogDirFailed
from odradek.storage.log.log import STRAY_SUFFIX, Log
from odradek.storage.log.plans import DeletePlan

from ..config import Config
from ..core.log_uses import Act, Use
from ..core.partition import Partition
from ..core.replication_quota import ReplicationQuota
from ..core.sampled_rate import SampledRate
from ..runtime import Runtime
from ..tasks import TaskSupervisor, to_the_end

if TYPE_CHECKING:
    from .replicas import Replicas

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

SLICE_BYTES: Final = 64 << 10  # the first; later ones are sized to take 2 to 5 ms
SLICE_BYTES_MIN: Final = 8 << 10
SLICE_BYTES_MAX: Final = 512 << 10
FLUSH_BYTES: Final = 32 << 20  # after so many bytes the copy is made durable
RETRY_MS: Final = 10_000  # after a full disk
THROTTLED_MS: Final = 100  # between checks whether the next slice may be copied
DIRECTORY_NAME_MAX: Final = 255


class _Ended(Exception):
    """The move is no longer wanted, or no longer possible."""


class Moves:
    """All moves of one broker."""

    def __init__(
        self, replicas: "Replicas", config: Config, runtime: Runtime, tasks: TaskSupervisor
    ) -> None:
        self._replicas = replicas
        self._config = config
        self._runtime = runtime
        self._tasks = tasks
        self._running: set[TopicPartition] = set()
        self._failed: set[Log] = set()
        """The copies whose source logs can't be read."""
        self._changed = asyncio.Event()
        window_ms = 1000 * config.alter_log_dirs_replication_quota_window_size_seconds
        self._quota = ReplicationQuota(
            SampledRate(config.alter_log_dirs_replication_quota_window_num, window_ms),
            lambda: config.replica_alter_log_dirs_io_max_bytes_per_second,
        )

    # Client requests.

    def alter(self, topic: str, partition: int, path: str) -> None:
        """Have a replica moved to, or created in, a directory; its current one cancels the move.

        Raises: Refused (INVALID_TOPIC_EXCEPTION, LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
        REPLICA_NOT_AVAILABLE), DiskFull, LogDirFailed.  Source: ReplicaManager of Kafka.
        """
        replicas, key = self._replicas, (topic, partition)
        uuid = self._runtime.random.randbytes(16)
        name = future_directory(topic, partition, uuid)
        if len(name) > DIRECTORY_NAME_MAX:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is too long")
        if path not in replicas.log_dirs.paths:
            raise Refused(ErrorCode.LOG_DIR_NOT_FOUND, f"{path[:1000]} is no log directory")
        data_dir = replicas.log_dirs.of_path(path)
        if data_dir is None or replicas.is_offline or replicas.statuses[key].is_failed:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory is offline")
        moving = replicas.log_dirs.find_future(*key)
        if moving is not None and moving[0] is not data_dir:
            self._cancel(*moving)
            moving = None
        served = replicas.partitions.get(key)
        if served is None:
            replicas.logs.prefer_dir(key, path)
            raise Refused(ErrorCode.REPLICA_NOT_AVAILABLE)
        if moving is not None or replicas.log_dirs.holding(served.log) is data_dir:
            return
        if not replicas.log_dirs.is_complete:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory is offline")
        future = data_dir.create_future(served.log, name)
        logger.info("move begun from=%s to=%s", served.log.directory, future.directory)
        self._changed.set()

    def _cancel(self, data_dir: DataDir, future: Log) -> None:
        """Raises: LogDirFailed."""
        logger.info("move cancelled to=%s", future.directory)
        self._failed.discard(future)
        uuid = self._runtime.random.randbytes(16)
        plan = data_dir.delete_future(future.topic, future.partition, uuid)
        self._replicas.must_checkpoint.set()
        self._replicas.deletions.add(plan, future.config.file_delete_delay_ms)

    # Running.

    async def run(self) -> None:
        """Run moves forever, starting with those left from before the broker's restart."""
        self._set_aside_strays()
        while True:
            self._changed.clear()
            for key in self._wanted():
                if len(self._running) >= self._at_once:
                    break
                if key not in self._running:
                    self._running.add(key)
                    self._tasks.spawn(self._move(key), f"move {key[0]}-{key[1]}")
            await self._changed.wait()

    async def _end_use(self, source: Log, plan: DeletePlan) -> None:
        """Let readers of the old log, such as a group loader, finish before it is unlinked."""
        try:
            await asyncio.sleep(source.config.file_delete_delay_ms / 1000)
        finally:
            source.abandon()
        self._replicas.deletions.add(plan, 0)

    def _set_aside_strays(self) -> None:
        """Set aside copies of topics that were recreated while their directory was offline."""
        for data_dir in list(self._replicas.log_dirs.online):
            for key, future in list(data_dir.futures.items()):
                served = self._replicas.partitions.get(key)
                if served is None or served.log.topic_id in (None, future.topic_id):
                    continue
                del data_dir.futures[key]
                try:
                    uuid = self._runtime.random.randbytes(16)
                    directory = future.move_away(uuid, STRAY_SUFFIX)
                except LogDirFailed as error:
                    self._replicas.take_offline(error)
                    break
                logger.error("copy of another topic is set aside directory=%s", directory)

    @property
    def _at_once(self) -> int:
        threads: int | None = self._config.num_replica_alter_log_dirs_threads
        return len(self._replicas.log_dirs.paths) if threads is None else max(1, threads)

    def _wanted(self) -> list[TopicPartition]:
        return [
            key
            for data_dir in self._replicas.log_dirs.online
            for key, future in data_dir.futures.items()
            if key in self._replicas.partitions and future not in self._failed
        ]

    async def _move(self, key: TopicPartition) -> None:
        try:
            found, partition = self._replicas.log_dirs.find_future(*key), None
            if found is not None:
                partition = self._replicas.partitions.get(key)
            if found is not None and partition is not None:
                source = partition.log
                move = _Move(self._replicas, self._runtime, self._quota, partition, *found)
                plan = await move.run()
                if plan is not None:
                    self._tasks.spawn(self._end_use(source, plan), f"unlink {plan.directory}")
        except _Ended:
            pass
        except DiskFull as error:
            self._replicas.note_failure(error)
            await asyncio.sleep(RETRY_MS / 1000)
        except LogDirFailed as error:
            self._replicas.note_failure(error)
        except (CorruptLog, MalformedMessage) as error:
            assert found is not None
            self._failed.add(found[1])
            logger.error(
                "move failed, the replica stays where it is to=%s error=%s", found[1], error
            )
        finally:
            self._running.discard(key)
            self._changed.set()


class _Move:
    """One move; `run` takes it to its end, continuing where its copy ends."""

    def __init__(
        self,
        replicas: "Replicas",
        runtime: Runtime,
        quota: ReplicationQuota,
        partition: Partition,
        data_dir: DataDir,
        future: Log,
    ) -> None:
        self._replicas = replicas
        self._runtime = runtime
        self._quota = quota
        self._partition = partition
        self._source = partition.log
        self._source_dir = replicas.log_dirs.holding(partition.log)
        self._data_dir = data_dir
        self._future = future
        self._unflushed_bytes = 0
        self._slice_bytes = SLICE_BYTES

    async def run(self) -> DeletePlan | None:
        """Copy, then swap; return the plan that deletes the old log once no reader uses it.

        Raises: _Ended, CorruptLog, MalformedMessage, LogDirFailed.
        """
        replicas, source = self._replicas, self._source
        await replicas.logs.until_unused(source)
        self._check()
        with replicas.uses.during(source, Use.MOVES):
            return await self._copy_and_swap()

    async def _copy_and_swap(self) -> DeletePlan | None:
        self._check()
        if self._future.size_bytes == 0:  # it must not inherit the offsets of an earlier log here
            await self._replicas.checkpoint(self._data_dir)  # the other directory may be full
            self._check()
        copy = Copy(self._source, self._future)
        await self._catch_up(copy, is_throttled=True)
        await self._flush()
        self._check()
        await self._mark(copy)
        async with self._replicas.flushes.hold(self._source):
            self._check()
            await self._catch_up(copy)
            copy.skip_to_end(self._runtime.clock.wall_ms())
            await self._flush()
            await self._replicas.checkpoint(self._data_dir)
            self._check()
            give_final_name(self._future, self._data_dir)
            await self._sync(self._data_dir)
            self._check()
            await self._catch_up(copy)
            while not copy.is_as_safe:
                copy.follow()
                await self._flush()
                await self._replicas.checkpoint(self._data_dir)
                self._check()
                await self._catch_up(copy)
            plan = self._swap(copy)
        await self._settle(copy, plan)
        return plan

    def _check(self) -> None:
        """Check that nothing changed while other tasks ran.  Raises: _Ended."""
        replicas, source = self._replicas, self._source
        key = source.topic, source.partition
        if (
            replicas.is_offline
            or replicas.partitions.get(key) is not self._partition
            or self._partition.log is not source
            or self._data_dir.futures.get(key) is not self._future
            or self._data_dir not in replicas.log_dirs.online
        ):
            raise _Ended

    async def _catch_up(self, copy: Copy, *, is_throttled: bool = False) -> None:
        """Copy until the copy has everything, and return before another task runs.

        `is_throttled`: obey the quota. At the end it does not apply, as the log's flushes are held.
        """
        while True:
            while is_throttled and self._quota.is_exceeded(self._runtime.clock.now_ms()):
                await asyncio.sleep(THROTTLED_MS / 1000)
                self._check()
            span = copy.next_span(self._slice_bytes)
            if span is None:
                return
            is_last = span.next_offset >= self._source.log_end_offset
            try:
                if is_last:  # just written, so the disk is not accessed
                    data = span.read()
                else:
                    data = await to_the_end(self._runtime.offload(span.read))
            finally:
                span.release()
            if not is_last:
                self._check()
            if span.dropped:  # the log was cut meanwhile: the data is stale or incomplete
                continue
            self._append(copy, data)
            if is_last and copy.lag == 0:
                return
            await asyncio.sleep(0)
            if self._unflushed_bytes >= FLUSH_BYTES:
                await self._flush()
            self._check()

    def _append(self, copy: Copy, data: bytes) -> None:
        clock = self._runtime.clock
        start_ms = clock.now_ms()
        copy.append(data, clock.wall_ms())
        took_ms = clock.now_ms() - start_ms
        if took_ms > 5:
            self._slice_bytes = max(SLICE_BYTES_MIN, self._slice_bytes // 2)
        elif took_ms < 2:
            self._slice_bytes = min(SLICE_BYTES_MAX, self._slice_bytes * 2)
        self._unflushed_bytes += len(data)
        self._quota.record(len(data), clock.now_ms())

    async def _mark(self, copy: Copy) -> None:
        try:
            await to_the_end(self._runtime.offload(copy.mark))
        except LogDirFailed:
            self._check()  # ending a move removes the directory
            raise

    async def _flush(self) -> None:
        self._unflushed_bytes = 0
        plan = self._future.flush_plan()
        if plan is None:
            return
        try:
            await to_the_end(self._runtime.offload(plan.run))
            self._future.flushed(plan)
        finally:
            plan.release()

    async def _sync(self, data_dir: DataDir) -> None:
        await to_the_end(self._runtime.offload(self._future.files.sync_path, data_dir.path))

    def _swap(self, copy: Copy) -> DeletePlan | None:
        """Serve the copy; return the plan for the old log, or None if it can't be renamed."""
        source, future, partition = self._source, self._future, self._partition
        key = source.topic, source.partition
        copy.skip_to_end(self._runtime.clock.wall_ms())
        copy.complete()
        assert copy.is_as_safe
        del self._data_dir.futures[key]
        del self._source_dir.logs[key]
        self._data_dir.logs[key] = future
        uses = self._replicas.uses
        if not uses.may(Act.APPEND, source):  # the copy was cut as well, perhaps after its flush
            uses.end(source, Use.CUT)
            uses.begin(future, Use.CUT)
        partition.go_on_in(future)
        partition.wake()
        try:
            return retire(source, self._source_dir, self._runtime.random.randbytes(16))
        except LogDirFailed as error:
            source.abandon()
            self._replicas.take_offline(error)
            return None

    async def _settle(self, copy: Copy, plan: DeletePlan | None) -> None:
        logger.info("move ended directory=%s", self._future.directory)
        self._replicas.must_checkpoint.set()
        if plan is None:
            return
        try:
            await self._sync(self._source_dir)
            copy.unmark()
        except BaseException:
            self._source.abandon()
            raise
