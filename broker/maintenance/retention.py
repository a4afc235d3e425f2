"""Retention: deletes segments that are too old, exceed the size limit, or are below the log start.

Each round checks all replicas and then makes their new log starts durable in one checkpoint. After
that it renames the files, and `Deletions` unlinks them. A disk that is too full for the checkpoint
must not prevent freeing space: in that case, as in Apache Kafka, a crash may bring back segments
that were about to be deleted.
"""

import asyncio
import logging
from typing import Final

from odradek.storage.errors import DiskFull, LogDirFailed, StorageError
from odradek.storage.log.log import Log
from odradek.storage.upkeep.retention import (
    expire,
    knows_producers_from,
    remove_plan,
    removed,
    start_plan,
)

from ..config import Config
from ..core.log_uses import Act, Use
from ..core.partition import Partition
from ..partitions.replicas import Replicas
from ..runtime import Runtime
from ..tasks import to_the_end

logger = logging.getLogger(__name__)

FIRST_CHECK_MS: Final = 30_000  # after startup, as Kafka's log.initial.task.delay.ms
LOOKED_AT_ONCE: Final = 50  # partitions per turn of the loop


class Retention:
    """Deletes one broker's old segments."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._config = config
        self._clock = runtime.clock
        self._offload = runtime.offload

    async def run(self) -> None:
        """Check all replicas, forever."""
        await self._clock.sleep(min(FIRST_CHECK_MS, self._config.log_retention_check_interval_ms))
        while True:
            await self.check()
            await self._clock.sleep(self._config.log_retention_check_interval_ms)

    async def check(self) -> None:
        """Check all replicas once."""
        found = await self._expire()
        ready = [(one, offset) for one, offset in found if await self._may_start(one, offset)]
        if not ready:
            return
        try:
            await self._replicas.checkpoint()
        except DiskFull as error:
            logger.warning(
                "log starts are not durable, segments are deleted nevertheless: %s", error
            )
        except LogDirFailed:
            return  # the directory is offline now
        for partition, offset in ready:
            await self._remove(partition, offset)

    async def _expire(self) -> list[tuple[Partition, int]]:
        """Raise log starts; return where segments can be deleted, and up to which offset."""
        found = []
        for number, partition in enumerate(list(self._replicas.partitions.values())):
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            may = self._replicas.uses.may(Act.REMOVE_SEGMENTS, partition.log)
            if not may or not self._is_served(partition):
                continue
            try:
                offset = expire(partition.log, self._clock.wall_ms())
            except StorageError as error:
                self._replicas.note_failure(error)
                continue
            if offset is not None:
                found.append((partition, offset))
                await asyncio.sleep(0)  # it may have rolled a segment, which takes time
        return found

    async def _may_start(self, partition: Partition, offset: int) -> bool:
        """Make durable what a log start at `offset` relies on; False: not possible now."""
        log = partition.log
        uses = self._replicas.uses
        if not self._is_served(partition) or not uses.may(Act.RAISE_START, log):
            return False
        try:
            with uses.during(log, Use.EXPIRES):
                if not knows_producers_from(log, offset):
                    await self._replicas.flushes.flush(partition)
                    if not self._is_served(partition) or not knows_producers_from(log, offset):
                        return False
                plan = start_plan(log, offset)
                await to_the_end(self._offload(plan.run))
                log.flushed(plan)
        except StorageError as error:
            self._replicas.note_failure(error)
            return False
        return True

    async def _remove(self, partition: Partition, offset: int) -> None:
        log = partition.log
        uses = self._replicas.uses
        if not self._is_served(partition) or not uses.may(Act.REMOVE_SEGMENTS, log):
            return
        try:
            with uses.during(log, Use.EXPIRES):
                plan = remove_plan(log, offset)
                if plan is None:
                    return
                await to_the_end(self._offload(plan.run))
        except LogDirFailed as error:
            self._replicas.note_failure(error)
            return
        removed(log)
        self._replicas.deletions.add(plan.unlink_plan(), log.config.file_delete_delay_ms)
        _report(log, plan.count)

    def _is_served(self, partition: Partition) -> bool:
        state = partition.state
        return self._replicas.partitions.get((state.topic, state.partition)) is partition


def _report(log: Log, count: int) -> None:
    logger.info(
        "segments deleted topic=%s partition=%d count=%d log_start_offset=%d",
        log.topic,
        log.partition,
        count,
        log.log_start_offset,
    )
