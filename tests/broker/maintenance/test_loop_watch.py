"""A broker notices when its loop is held up."""

import asyncio
import re
import time

import pytest

from odradek.broker.maintenance.loop_watch import STALL_MS
from odradek.broker.metrics.counters import LOOP_STALLS

from ..running import RunningBroker, on_broker

CHECK_MS = 5
TRIES = 3
STALL_S = 2 * STALL_MS / 1000


@pytest.mark.slow
@on_broker({"odradek.loop.stall.check.ms": str(CHECK_MS)}, both=False)
async def test_a_stall_is_logged(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    counters = broker.node.metrics.counters
    before = counters[LOOP_STALLS]
    caplog.clear()

    for _ in range(TRIES):  # the watch may have to begin
        asyncio.get_running_loop().call_soon(time.sleep, STALL_S)
        await asyncio.sleep(2 * CHECK_MS / 1000)
        if counters[LOOP_STALLS] > before:
            break
    found = re.search(r"loop stalled ms=(\d+) cpu_ms=(\d+) queued_ms=(\d+)", caplog.text)
    assert found is not None
    late_ms, cpu_ms, queued_ms = map(int, found.groups())
    assert late_ms >= STALL_S * 1000 - 2 * CHECK_MS
    assert cpu_ms + queued_ms <= late_ms + 2 * CHECK_MS
