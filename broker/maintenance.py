"""What a broker does to its logs in the background: flushes, checkpoints, expiry of producers.

A partition is flushed when enough has been appended or enough time has passed; its recovery point
then moves and is written down, which bounds what is scanned after an unclean stop. All fsyncs run
in threads.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Final

from odradek.storage.errors import LogDirFailed
from odradek.storage.log import Log

from .config import Config
from .replicas import Replicas
from .runtime import Runtime
from .tasks import to_the_end

log = logging.getLogger(__name__)

CHECK_MS: Final = 250
FLUSHES_AT_ONCE_MAX: Final = 4
PRODUCER_EXPIRY_CHECK_MS: Final = 600_000


class Maintenance:
    """The background work on one broker's logs."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._clock = runtime.clock
        self._offload = runtime.offload
        self._flush_bytes = config.odradek_flush_bytes
        self._flush_ms = config.odradek_flush_ms
        self._checkpoint_ms = min(
            config.log_flush_offset_checkpoint_interval_ms,
            config.log_flush_start_offset_checkpoint_interval_ms,
            config.replica_high_watermark_checkpoint_interval_ms,
        )
        self._config = config
        self._dirty_since_ms: dict[Log, int] = {}
        self._checkpointed_ends: dict[Log, tuple[int, int, int]] = {}

    def loops(self) -> dict[str, Coroutine[object, object, None]]:
        """What to run for ever, by name."""
        return {
            "flush": self._flush_forever(),
            "checkpoint": self._checkpoint_forever(),
            "expire producers": self._expire_producers_forever(),
        }

    async def _flush_forever(self) -> None:
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

    async def _checkpoint_forever(self) -> None:
        must = self._replicas.must_checkpoint
        while True:
            try:
                async with asyncio.timeout(self._checkpoint_ms / 1000):
                    await must.wait()
            except TimeoutError:
                pass
            must.clear()
            waiters, self._replicas.checkpoint_waiters = self._replicas.checkpoint_waiters, []
            error: LogDirFailed | None
            if self._replicas.is_offline:
                error = LogDirFailed("the log directory is offline")
            else:
                error = await self._checkpoint()
            for waiter in waiters:
                if waiter.done():  # has hung up
                    continue
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)

    async def _checkpoint(self) -> LogDirFailed | None:
        """Write down what has changed; return why it could not be done."""
        ends = {
            kept: (kept.recovery_point, kept.high_watermark, kept.log_start_offset)
            for kept in self._replicas.data_dir.logs.values()
        }
        if ends == self._checkpointed_ends:
            return None
        plan = self._replicas.data_dir.checkpoint_plan()
        try:
            await to_the_end(self._offload(plan.run))
            self._replicas.data_dir.checkpointed(plan)
        except LogDirFailed as error:
            self._replicas.take_offline(error)
            return error
        self._checkpointed_ends = ends
        return None

    async def _expire_producers_forever(self) -> None:
        while True:
            await asyncio.sleep(PRODUCER_EXPIRY_CHECK_MS / 1000)
            self.expire_producers()

    def expire_producers(self) -> int:
        """Forget the producers that have been silent for too long; return how many."""
        wall_ms = self._clock.wall_ms()
        return sum(
            partition.log.producers.expire(
                wall_ms, producer_id_expiration_ms=self._config.producer_id_expiration_ms
            )
            for partition in self._replicas.partitions.values()
        )
