"""Compaction, the filthiest log first: a separate process does it; this one swaps in the result.

Each round checks all logs whose cleanup.policy includes `compact`, and starts as many compactions
as log.cleaner.threads allows, but only one per log. They share evenly the memory for keys, the
buffers and the bytes per second. The next round begins when a compaction ends, or after
log.cleaner.backoff.ms.  Source: LogCleaner of Kafka 3.9.

The job's output is discarded if the log was truncated or deleted meanwhile. A log that the job
can't read is not compacted again until the broker restarts, as in Kafka.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from odradek.protocol.primitives import INT32_MAX
from odradek.storage.errors import CorruptLog, DiskFull, LogDirFailed, StorageError
from odradek.storage.jobs import Result
from odradek.storage.log.log import Log
from odradek.storage.upkeep.cleanable import Cleanable, cleanable, filthiest
from odradek.storage.upkeep.retention import UnlinkPlan
from odradek.storage.upkeep.swap import Swap, remove_cleaned

from ..config import Config
from ..core.log_uses import Act, Use
from ..jobs import JobFailed
from ..partitions.replicas import Replicas
from ..runtime import Runtime
from ..tasks import to_the_end

logger = logging.getLogger(__name__)

SEGMENTS_A_TURN: Final = 1000  # checked before other tasks get their turn
PAUSE_MS_MIN: Final = 100
FULL_DISK_PAUSE_MS: Final = 500
FULL_DISK_TRIES: Final = 20
UNLIMITED: Final = float(1 << 62)

Check = Callable[[int], None]


class _Outdated(Exception):
    """The log has changed since its compaction began."""


class Cleaner:
    """Compacts one broker's logs."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._config = config
        self._runtime = runtime
        self._jobs: dict[Log, asyncio.Task[Result]] = {}
        replicas.on_given_up.append(self._give_up)
        self._uncleanable: set[Log] = set()
        self._retry_at_ms: dict[Log, int] = {}
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Compact logs, forever."""
        async with asyncio.TaskGroup() as cleanings:
            while True:
                self._ended.clear()
                while len(self._replicas.uses.having(Use.COMPACTS)) < self._threads:
                    found = await self.filthiest()
                    if found is None:
                        break
                    self._replicas.uses.begin(found.log, Use.COMPACTS)
                    cleanings.create_task(self._clean_and_tell(found))
                pause_ms = max(PAUSE_MS_MIN, self._config.log_cleaner_backoff_ms)
                clock = self._runtime.clock
                timer = clock.call_at(clock.timer_ms() + pause_ms, self._ended.set)
                try:
                    await self._ended.wait()
                finally:
                    timer.cancel()

    @property
    def _threads(self) -> int:
        threads: int = self._config.log_cleaner_threads
        return threads if self._config.log_cleaner_enable else 0

    async def filthiest(self) -> Cleanable | None:
        """The log to compact next."""
        candidates: list[Cleanable] = []
        served = [partition.log for partition in self._replicas.partitions.values()]
        self._uncleanable.intersection_update(served)
        self._retry_at_ms = {k: v for k, v in self._retry_at_ms.items() if k in served}
        turn = 0
        for log in served:
            candidate = self._candidate(log)
            if candidate is not None:
                candidates.append(candidate)
            turn += len(log.segments) if log.config.compacts else 1
            if turn > SEGMENTS_A_TURN:
                turn = 0
                await asyncio.sleep(0)
        found = filthiest(candidates)
        return None if found is None else self._candidate(found.log)  # its current state

    def _candidate(self, log: Log) -> Cleanable | None:
        """The part of a log that can be compacted now."""
        if (
            not log.config.compacts
            or len(log.segments) == 1
            or not self._replicas.uses.may(Act.COMPACT, log)
            or log in self._uncleanable
            or self._runtime.clock.now_ms() < self._retry_at_ms.get(log, 0)
            or not self._serves(log)
        ):
            return None
        try:
            found = cleanable(log, self._runtime.clock.wall_ms())
        except LogDirFailed as error:
            self._replicas.note_failure(error)
            return None
        return filthiest([found])

    def _serves(self, log: Log) -> bool:
        partition = self._replicas.partitions.get((log.topic, log.partition))
        return partition is not None and partition.log is log

    def _give_up(self, log: Log) -> None:
        """Cancel the job of a log to be deleted: deletion must not wait for a throttled job."""
        if log in self._jobs:
            self._jobs[log].cancel()

    async def _clean_and_tell(self, found: Cleanable) -> None:
        try:
            await self._clean(found)
        finally:
            self._replicas.uses.end(found.log, Use.COMPACTS)
            self._ended.set()

    async def _clean(self, found: Cleanable) -> None:
        log, generation = found.log, found.log.generation

        def check(_: int) -> None:
            if log.generation != generation or not self._serves(log):
                raise _Outdated

        try:
            await self._compact(found, check)
        except _Outdated:
            logger.info("log not cleaned log=%r reason=it has changed meanwhile", log)
        except JobFailed as error:
            logger.warning("log not cleaned, tried again later log=%r error=%s", log, error)
            self._retry_later(log)
        except StorageError as error:
            with contextlib.suppress(_Outdated):
                check(0)
                self._failed(log, error)

    def _failed(self, log: Log, error: StorageError) -> None:
        if isinstance(error, LogDirFailed):  # not the log's fault; the disk may just be full
            self._replicas.note_failure(error)
            self._retry_later(log)
            return
        logger.warning("log can't be cleaned, not tried again log=%r error=%s", log, error)
        self._uncleanable.add(log)

    def _retry_later(self, log: Log) -> None:
        pause_ms = max(PAUSE_MS_MIN, self._config.log_cleaner_backoff_ms)
        self._retry_at_ms[log] = self._runtime.clock.now_ms() + pause_ms

    async def _compact(self, found: Cleanable, check: Check) -> None:
        """Run a compaction and swap in its result.  Raises: _Outdated, StorageError, JobFailed."""
        log, runtime = found.log, self._runtime
        await to_the_end(runtime.offload(remove_cleaned, log.files, log.directory))
        check(0)
        start_ms = runtime.clock.now_ms()
        arguments = job_arguments(found, self._config, runtime.clock.wall_ms())
        result = await self._run_job(log, runtime.jobs("clean", arguments, check))
        check(0)
        if result["end_offset"] <= found.first_dirty_offset:
            raise CorruptLog(f"{log!r}: no progress from offset {found.first_dirty_offset} on")
        await self._make_recovered(log, result["end_offset"])
        check(0)
        with self._replicas.uses.during(log, Use.SWAPS):
            await to_the_end(self._take_over(log, result, check))
        log.cleaner_offset = result["end_offset"]
        _report(found, result, runtime.clock.now_ms() - start_ms)
        await self._replicas.checkpoint(self._replicas.log_dirs.of(log.directory))

    async def _make_recovered(self, log: Log, offset: int) -> None:
        """Make sure that the recovery point on disk is at least `offset`.

        A start scans the records above it. It would treat records removed by compaction as lost if
        the topic is no longer compacted by then.  Raises: LogDirFailed.
        """
        replicas = self._replicas
        if log.recovery_point < offset:
            await replicas.flushes.flush(replicas.partitions[log.topic, log.partition])
        with contextlib.suppress(DiskFull):  # compaction itself frees space
            await replicas.checkpoint(replicas.log_dirs.of(log.directory))

    async def _run_job(self, log: Log, running: Coroutine[object, object, Result]) -> Result:
        """Run a job.  Raises: _Outdated (the log was given up), StorageError, JobFailed."""
        job = self._jobs[log] = asyncio.ensure_future(running)
        try:
            return await job
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise
            raise _Outdated from None
        finally:
            del self._jobs[log]

    async def _take_over(self, log: Log, result: Result, check: Check) -> None:
        """Replace the old segments by the new ones, one at a time.

        The dirty part counts as clean only once all are replaced: a record must not outlive the
        tombstone that deletes it.  Raises: _Outdated, LogDirFailed.
        """
        for segment in result["segments"]:
            swap = Swap(log, segment["base_offset"], segment["replaces"])
            await self._runtime.offload(swap.begin)
            try:
                check(0)
                if not swap.can_switch():
                    raise _Outdated
            except _Outdated:
                await self._runtime.offload(swap.undo)
                raise
            swap.switch()
            await self._insist(swap.retire, log.directory)
            check(0)
            await self._insist(swap.settle, log.directory, offload=False)
            await self._runtime.offload(swap.sync)
            unlink = UnlinkPlan(log.files, swap.deleted_paths)
            self._replicas.deletions.add(unlink, log.config.file_delete_delay_ms)

    async def _insist(self, step: Callable[[], None], path: str, *, offload: bool = True) -> None:
        """Do a step of a swap, which must be completed; retry it while the disk is full.

        Raises: LogDirFailed.
        """
        for _ in range(FULL_DISK_TRIES):
            try:
                if offload:
                    await self._runtime.offload(step)
                else:
                    step()
                return
            except DiskFull as error:
                self._replicas.note_failure(error)
                await asyncio.sleep(FULL_DISK_PAUSE_MS / 1000)
        raise LogDirFailed(f"{path}: no space to take over compacted segments", path)


def job_arguments(found: Cleanable, config: Config, wall_ms: int) -> dict[str, Any]:
    """The arguments of a job; each thread gets an equal share of the limits."""
    log, threads = found.log, max(1, config.log_cleaner_threads)
    topic = log.config
    bytes_per_second = config.log_cleaner_io_max_bytes_per_second
    return {
        "directory": log.directory,
        "segments": [
            {
                "base_offset": segment.base_offset,
                "size_bytes": segment.size_bytes,
                "next_offset": next_offset,
            }
            for segment, next_offset in found.segments()
        ],
        "first_dirty_offset": found.first_dirty_offset,
        "end_offset": found.end_offset,
        "wall_ms": wall_ms,
        "delete_retention_ms": topic.delete_retention_ms,
        "segment_bytes": topic.segment_bytes,
        "segment_index_bytes": topic.segment_index_bytes,
        "index_interval_bytes": topic.index_interval_bytes,
        "record_bytes_max": topic.record_bytes_max,
        "map_bytes": min(config.log_cleaner_dedupe_buffer_size // threads, INT32_MAX),
        "load_factor": config.log_cleaner_io_buffer_load_factor,
        "io_buffer_bytes": max(1, config.log_cleaner_io_buffer_size // threads // 2),
        "io_bytes_per_second": None if bytes_per_second > UNLIMITED else bytes_per_second / threads,
        "producers": found.producers(),
    }


def _report(found: Cleanable, result: Result, took_ms: int) -> None:
    told, seconds = result["statistics"], max(took_ms, 1) / 1000
    read_mb, written_mb = told["bytes_read"] / 1e6, told["bytes_written"] / 1e6
    indexed_mb = told["map_bytes_read"] / 1e6
    logger.info(
        "log cleaned log=%r first_dirty_offset=%d end_offset=%d dirty_ratio=%.2f seconds=%.1f "
        "indexed_mb=%.1f read_mb=%.1f written_mb=%.1f mb_per_second=%.1f records_read=%d "
        "records_written=%d map_used=%.1f%% smaller_by=%.1f%%",
        found.log,
        found.first_dirty_offset,
        result["end_offset"],
        found.ratio,
        seconds,
        indexed_mb,
        read_mb,
        written_mb,
        (indexed_mb + read_mb + written_mb) / seconds,
        told["records_read"],
        told["records_written"],
        100 * told["map_utilization"],
        100 * (1 - written_mb / read_mb) if read_mb else 0.0,
    )
    if told["invalid_records"]:
        logger.warning(
            "records without a key dropped log=%r count=%d", found.log, told["invalid_records"]
        )
