"""Checkpoints: high watermarks, recovery points and log starts are written down.

Regularly, and at once when somebody waits for it (`Replicas.checkpoint`). Only one plan of a
directory runs at a time.
"""

import asyncio

from odradek.storage.errors import LogDirFailed
from odradek.storage.log import Log

from ..config import Config
from ..replicas import Replicas
from ..runtime import Runtime
from ..tasks import to_the_end


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
        self._checkpointed_ends: dict[Log, tuple[int, int, int, int | None]] = {}

    async def run(self) -> None:
        """Write checkpoints for ever."""
        must = self._replicas.must_checkpoint
        while True:
            try:
                async with asyncio.timeout(self._interval_ms / 1000):
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
            kept: (
                kept.recovery_point,
                kept.high_watermark,
                kept.log_start_offset,
                kept.cleaner_offset,
            )
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
