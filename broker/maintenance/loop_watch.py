"""Notices when the event loop is held up: nobody is served meanwhile, and no heartbeat goes out.

A timer that comes too late tells of a stall that was under way when it was due; the shorter the
interval, the fewer are missed.
"""

import asyncio
import logging
from typing import Final

from ..config import Config
from ..counters import LOOP_STALLS, Counters
from ..runtime import Runtime

log = logging.getLogger(__name__)

STALL_MS: Final = 50


async def watch_loop(config: Config, runtime: Runtime, counters: Counters) -> None:
    """Log every stall that is seen, for ever; or nothing if the interval is 0.

    Of a stall, `queued_ms` the thread was ready to run, but the machine had others to serve.
    """
    interval_ms = config.odradek_loop_stall_check_ms
    queued_ms = runtime.queued_ms()
    while interval_ms:
        due_ms = runtime.clock.now_ms() + interval_ms
        await asyncio.sleep(interval_ms / 1000)
        late_ms = runtime.clock.now_ms() - due_ms
        before_ms, queued_ms = queued_ms, runtime.queued_ms()
        if late_ms > STALL_MS:
            counters.add(LOOP_STALLS)
            log.warning("loop stalled ms=%d queued_ms=%d", late_ms, queued_ms - before_ms)
