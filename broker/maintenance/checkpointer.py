"""Writes checkpoints: the high watermarks, recovery points and log starts of all logs.

They are written regularly, and at once when a caller waits for it (`Replicas.checkpoint`). Only one
checkpoint of a directory is written at a time.
"""

import asyncio

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.checkpoint import TopicPartition
from odradek.storage.log.log import Log

from ..config import Config
from ..partitions.replicas import Replicas
from ..runtime import Runtime
from ..tasks import to_the_end

_Ends = tuple[int, int, int, int | None]
_Content = tuple[dict[Log, _Ends], frozenset[TopicPartition]]


class Checkpointer:
    """Writes one broker's checkpoints."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._offload = runtime.offload
        self._interval_ms = min(
            config.log_flush_offset_checkpoint_interval_ms,
            config.log_flush_start_offset_checkpoint_interval_ms,
            config.replica_high_watermark_checkpoint_interval_ms,
        )
        self._written: dict[DataDir, _Content] = {}
        """The known contents of the files."""
        replicas.is_beyond_checkpoint = self._promises

    async def run(self) -> None:
        """Write checkpoints, forever."""
        must = self._replicas.must_checkpoint
        while True:
            try:
                async with asyncio.timeout(self._interval_ms / 1000):
                    await must.wait()
            except TimeoutError:
                pass
            must.clear()
            waiters, self._replicas.checkpoint_waiters = self._replicas.checkpoint_waiters, []
            failures = await self._checkpoint()
            for waiter in waiters:
                if not waiter.done():  # otherwise the caller was cancelled
                    waiter.set_result(failures)

    def _promises(self, log: Log, offset: int) -> bool:
        """Whether the checkpoints on disk promise that a log reaches beyond an offset.

        Unknown contents may promise anything.
        """
        data_dir = self._replicas.log_dirs.of(log.directory)
        written = None if data_dir is None else self._written.get(data_dir)
        if written is None:
            return True
        ends = written[0].get(log)
        return ends is not None and max(ends[:2]) > offset

    async def _checkpoint(self) -> dict[DataDir, LogDirFailed]:
        """Write the checkpoints that have changed; return the directories that failed, and why."""
        log_dirs = self._replicas.log_dirs
        if self._replicas.is_offline:
            error = LogDirFailed("the log directory is offline", log_dirs.first.path)
            return dict.fromkeys(log_dirs.online, error)
        failures = {}
        for data_dir in list(log_dirs.online):
            failure = await self._checkpoint_dir(data_dir)
            if failure is not None:
                failures[data_dir] = failure
        return failures

    async def _checkpoint_dir(self, data_dir: DataDir) -> LogDirFailed | None:
        ends = {
            log: (
                log.recovery_point,
                log.high_watermark,
                log.log_start_offset,
                log.cleaner_offset,
            )
            for log in data_dir.all_logs()
        }
        content = ends, frozenset(data_dir.unserved)
        if content == self._written.pop(data_dir, None):
            self._written[data_dir] = content
            return None
        plan = data_dir.checkpoint_plan()  # after a failure, some files may be written
        try:
            await to_the_end(self._offload(plan.run))
            data_dir.checkpointed(plan)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            return error
        self._written[data_dir] = content
        return None
