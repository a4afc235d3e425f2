"""No broker's loop is held up while a wide topic is made and the controller dies.

The brokers look themselves, every 5 ms, and say how long a stall the machine had others to serve;
that is no fault of theirs. `python -m benchmarks.cluster` has the whole counts, and the times.
"""

import time
from collections.abc import Iterator
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
from tests.lab.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(180)]

PARTITIONS: Final = 200
PAUSE_S: Final = 4 * STALL_MS / 1000


@pytest.fixture
def lab() -> Iterator[Cluster]:
    with started("odradek", WATCHED["odradek"]) as cluster:
        yield cluster


def own_stalls(lab: Cluster) -> list[int]:
    """Those above the limit, in milliseconds, that were the broker's own."""
    return [stall.own_ms for stall in stalls(lab) if stall.own_ms > STALL_MS]


def test_nothing_stalls(lab: Cluster) -> None:
    create(lab, "wide", PARTITIONS)
    end_of_controller(lab)
    wait_until_led(lab, {"wide": PARTITIONS}, isr_size=1)
    assert own_stalls(lab) == []
    # And they would have said so.
    alive = next(broker for broker in lab.brokers.values() if broker.alive)
    alive.pause()
    time.sleep(PAUSE_S)
    alive.resume()
    until(lambda: own_stalls(lab), "the pause is seen as a stall")
