"""Flushes logs in the background, after enough bytes or enough time.

A flush advances the recovery point, and a checkpoint stores it, which bounds the recovery after an
unclean shutdown. Kafka's flush.ms counts from the last flush, Odradek's odradek.flush.ms from the
first record that is not durable. No answer waits for these flushes. `Partition.append` starts the
flushes that answers wait for; they are only retried here if they were not possible.
"""

import asyncio
from typing import Final

from odradek.protocol.primitives import INT64_MAX
from odradek.storage.log.log import Log

from ..config import Config
from ..core.partition import Partition
from ..partitions.replicas import Replicas
from ..runtime import Runtime

CHECK_MS: Final = 250
CHECKED_PER_MS: Final = 10  # partitions; with more of them checks are rarer, so idling is cheap
FLUSHES_AT_ONCE_MAX: Final = 2  # the other threads are for flushes that answers wait for


class Flusher:
    """Flushes one broker's logs in the background."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._config = config
        self._clock = runtime.clock
        self._dirty_since_ms: dict[Log, int] = {}
        self._looked_ms = 0

    async def run(self) -> None:
        """Flush logs, forever."""
        flush, must_checkpoint = self._replicas.flushes.flush, self._replicas.must_checkpoint
        while True:
            await asyncio.sleep(min(self._check_ms(), self._look_ms()) / 1000)
            due = self._due()
            for start in range(0, len(due), FLUSHES_AT_ONCE_MAX):
                await asyncio.gather(*map(flush, due[start : start + FLUSHES_AT_ONCE_MAX]))
            if due or self._replicas.flushes.flushed_bytes >= self._config.odradek_flush_bytes:
                self._replicas.flushes.flushed_bytes = 0
                must_checkpoint.set()

    def _check_ms(self) -> int:
        return max(CHECK_MS, len(self._replicas.partitions) // CHECKED_PER_MS)

    def _look_ms(self) -> int:
        """The interval between checks of flush.ms.

        Kafka never checks if log.flush.scheduler.interval.ms is not set, so a topic's flush.ms has
        no effect there.
        """
        interval_ms: int = self._config.log_flush_scheduler_interval_ms
        return self._check_ms() if interval_ms == INT64_MAX else max(1, interval_ms)

    def _due(self) -> list[Partition]:
        """The partitions to flush now."""
        now_ms = self._clock.now_ms()
        flush_bytes, flush_ms = self._config.odradek_flush_bytes, self._config.odradek_flush_ms
        looks = now_ms - self._looked_ms >= self._look_ms()
        if looks:
            self._looked_ms = now_ms
        due, dirty = [], {}
        for partition in self._replicas.partitions.values():
            log = partition.log
            unflushed_bytes = log.flushing.unflushed_bytes
            # With very many partitions most are idle: avoid calls for those.
            if not unflushed_bytes and not (partition.flush_due and partition.awaits_flush):
                continue
            since_ms = self._dirty_since_ms.get(log, now_ms)
            if (
                unflushed_bytes >= flush_bytes
                or now_ms - since_ms >= flush_ms
                or (looks and now_ms - partition.flushed_ms >= partition.config.flush_ms)
                or partition.awaits_flush
            ):
                due.append(partition)
            else:
                dirty[log] = since_ms
        self._dirty_since_ms = dirty
        return due
