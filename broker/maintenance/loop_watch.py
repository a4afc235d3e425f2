"""Notices when the event loop is held up: nobody is served meanwhile, and no heartbeat goes out.

A timer that comes too late tells of a stall that was under way when it was due; the shorter the
interval, the fewer are missed.
"""

import asyncio
import logging
from typing import Final

from ..config import Config
from ..metrics.counters import LOOP_STALLS, Counters
from ..runtime import Runtime

logger = logging.getLogger(__name__)

STALL_MS: Final = 50


async def watch_loop(config: Config, runtime: Runtime, counters: Counters) -> None:
    """Log every stall that is seen, for ever; or nothing if the interval is 0.

    During a stall, the loop ran for `cpu_ms`, and the machine ran other work for `queued_ms`. The
    latter alone does not count as a stall. For the rest the loop waited: for the disk, or for
    another thread of the broker.
    """
    interval_ms = config.odradek_loop_stall_check_ms
    times = runtime.thread_times()
    while interval_ms:
        due_ms = runtime.clock.now_ms() + interval_ms
        await asyncio.sleep(interval_ms / 1000)
        late_ms = runtime.clock.now_ms() - due_ms
        before, times = times, runtime.thread_times()
        queued_ms = times.queued_ms - before.queued_ms
        if late_ms - queued_ms > STALL_MS:
            counters.add(LOOP_STALLS)
            logger.warning(
                "loop stalled ms=%d cpu_ms=%d queued_ms=%d",
                late_ms,
                times.cpu_ms - before.cpu_ms,
                queued_ms,
            )
