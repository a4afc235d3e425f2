"""No broker's loop is held up while a wide topic is made and the controller dies.

The brokers look themselves, every 5 ms, and say for how much of a stall they worked; in the rest a
crowded machine had others to serve. A machine that is slow for a moment makes work long, so only a
stall that comes back in each of three clusters counts. `python -m benchmarks.cluster` has the whole
counts and the times.
"""

import contextlib
import time
from typing import Final

import pytest

from benchmarks.cluster import (
    STALL_MS,
    WATCHED,
    create,
    end_of_controller,
    stalls,
    started,
    wait_until_led,
)
from tests.lab.cluster import Cluster
from tests.support.waiting import NotYet, until

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(180)]

PARTITIONS: Final = 200
PAUSE_S: Final = 4 * STALL_MS / 1000
TRIES: Final = 3
SEEN_S: Final = 5.0


def work_ms(lab: Cluster) -> list[int]:
    """Of each stall that was longer than the limit by work alone."""
    return [stall.cpu_ms for stall in stalls(lab) if stall.cpu_ms > STALL_MS]


def stalls_of_work(lab: Cluster) -> list[int]:
    """Those while a wide topic is made and the controller ends."""
    create(lab, "wide", PARTITIONS)
    end_of_controller(lab)
    wait_until_led(lab, {"wide": PARTITIONS}, isr_size=1)
    return work_ms(lab)


def pauses_are_seen(lab: Cluster) -> bool:
    """Whether a broker that is paused says so, of most pauses: one between two looks is missed."""
    alive = next(broker for broker in lab.brokers.values() if broker.alive)
    paused_ms = PAUSE_S * 1000 - STALL_MS

    def is_seen() -> bool:
        return any(stall.own_ms > paused_ms for stall in stalls(lab))

    for _ in range(TRIES):
        alive.pause()
        time.sleep(PAUSE_S)
        alive.resume()
        with contextlib.suppress(NotYet):
            until(is_seen, "a pause is seen", SEEN_S)
            break
    return is_seen()


def test_nothing_stalls() -> None:
    found = []
    for _ in range(TRIES):
        with started("odradek", WATCHED["odradek"]) as lab:
            found.append(stalls_of_work(lab))
            if not found[-1]:
                assert pauses_are_seen(lab)
                return
    pytest.fail(f"a loop worked for more than {STALL_MS} ms at a time, in each cluster: {found}")
