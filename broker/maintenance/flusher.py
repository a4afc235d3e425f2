"""Flushes: a partition is made durable when enough was appended or enough time has passed.

Its recovery point then moves and is written down, which bounds what is scanned after an unclean
stop. All fsyncs run in threads.
"""

import asyncio
from typing import Final

from odradek.storage.errors import LogDirFailed
from odradek.storage.log import Log

from ..config import Config
from ..replicas import Replicas
from ..runtime import Runtime
from ..tasks import to_the_end

CHECK_MS: Final = 250
FLUSHES_AT_ONCE_MAX: Final = 4


class Flusher:
    """Flushes one broker's logs in the background."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._clock = runtime.clock
        self._offload = runtime.offload
        self._flush_bytes = config.odradek_flush_bytes
        self._flush_ms = config.odradek_flush_ms
        self._dirty_since_ms: dict[Log, int] = {}

    async def run(self) -> None:
        """Look after all logs for ever."""
        while True:
            await asyncio.sleep(CHECK_MS / 1000)
            due = self._due()
            for start in range(0, len(due), FLUSHES_AT_ONCE_MAX):
                await asyncio.gather(*map(self._flush, due[start : start + FLUSHES_AT_ONCE_MAX]))
            if due:
                self._replicas.must_checkpoint.set()

    def _due(self) -> list[Log]:
        """The logs to flush now."""
        now_ms = self._clock.now_ms()
        due, dirty = [], {}
        for partition in self._replicas.partitions.values():
            kept = partition.log
            if kept.unflushed_bytes == 0:
                continue
            since_ms = self._dirty_since_ms.get(kept, now_ms)
            if kept.unflushed_bytes >= self._flush_bytes or now_ms - since_ms >= self._flush_ms:
                due.append(kept)
            else:
                dirty[kept] = since_ms
        self._dirty_since_ms = dirty
        return due

    async def _flush(self, kept: Log) -> None:
        if self._replicas.data_dir.logs.get((kept.topic, kept.partition)) is not kept:
            return  # deleted while others were flushed
        plan = None
        try:
            plan = kept.flush_plan()
            if plan is None:
                return
            await to_the_end(self._offload(plan.run))
            kept.flushed(plan)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
        finally:
            if plan is not None:
                plan.release()
