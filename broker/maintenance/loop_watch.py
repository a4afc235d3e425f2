"""Detects stalls of the event loop, during which no client is served and no heartbeat is sent.

A timer that fires late shows that the loop was stalled when it was due. With a shorter interval
fewer stalls are missed.
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
    """Log every stall that is detected, forever; return at once if the interval is 0.

    During a stall the loop ran for `cpu_ms`, and the machine ran other work for `queued_ms`, which
    does not count as a stall by itself. The rest of the time the loop waited for the disk or for
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
