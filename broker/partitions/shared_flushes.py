"""Flushes that responses wait for: one fsync covers all writes made before it began.

A log has one flush at a time. The next flush covers the records appended meanwhile, and follows
immediately if a response waits for it; so the slower the disk, the more writes share an fsync.
Several logs are flushed at once, in threads. A failed fsync takes the directory offline. Waiting
requests are notified as for any partition that is gone, and the fsync is not retried.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log
from odradek.storage.log.plans import FlushPlan

from ..core.partition import Partition
from ..runtime import Runtime
from ..tasks import TaskSupervisor, to_the_end

if TYPE_CHECKING:
    from .replicas import Replicas


class SharedFlushes:
    """Flushes one broker's logs."""

    def __init__(self, replicas: "Replicas", runtime: Runtime, tasks: TaskSupervisor) -> None:
        self._replicas = replicas
        self._offload = runtime.offload
        self._clock = runtime.clock
        self._tasks = tasks
        self._committing: set[Partition] = set()
        self._flushing: dict[Log, asyncio.Future[None]] = {}
        self.flushed_bytes = 0
        """Bytes made durable since this was last set to 0."""

    def begin(self, partition: Partition) -> None:
        """Flush the log, from the event loop's next turn on, until no request awaits a flush.

        So everything that is still appended in this turn shares the first fsync.
        """
        if partition not in self._committing:
            self._committing.add(partition)
            name = f"commit {partition.state.topic}-{partition.state.partition}"
            self._tasks.spawn(self._commit(partition), name)

    async def flush(self, partition: Partition) -> bool:
        """Make the current content of the log durable; False if that failed or it is not served."""
        while (running := self._flushing.get(partition.log)) is not None:
            await asyncio.wait([running])
        log = partition.log  # a move may have replaced it
        if not self._is_served(partition):
            return False
        ended = self._flushing[log] = asyncio.get_running_loop().create_future()
        plan = None
        try:
            plan = log.flush_plan()
            if plan is not None:
                await self._run(plan)
                log.flushed(plan)
                self.flushed_bytes += plan.size_bytes
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            return False
        finally:
            if plan is not None:
                plan.release()
            del self._flushing[log]
            ended.set_result(None)
        partition.flushed(self._clock.now_ms())
        return True

    async def _run(self, plan: FlushPlan) -> None:
        """Raises: LogDirFailed."""
        running = asyncio.ensure_future(self._offload(plan.run))
        try:
            await to_the_end(running)
        except asyncio.CancelledError:  # if the flush failed too, nothing else would report it
            error = None if running.cancelled() else running.exception()
            if isinstance(error, LogDirFailed):
                self._replicas.take_offline(error)
            raise

    async def flush_all(self, partitions: Iterable[Partition]) -> list[bool]:
        """Flush several logs at once; the results are in the same order."""
        return await asyncio.gather(*(self.flush(partition) for partition in partitions))

    @contextlib.asynccontextmanager
    async def hold(self, log: Log) -> AsyncIterator[None]:
        """Prevent flushes of a log while its copy is about to replace it."""
        while (running := self._flushing.get(log)) is not None:
            await asyncio.wait([running])
        ended = self._flushing[log] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._flushing[log]
            ended.set_result(None)

    async def _commit(self, partition: Partition) -> None:
        try:
            while partition.awaits_flush and await self.flush(partition):
                pass
        finally:
            self._committing.discard(partition)

    def _is_served(self, partition: Partition) -> bool:
        state = partition.state
        return self._replicas.partitions.get((state.topic, state.partition)) is partition
