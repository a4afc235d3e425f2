"""One follower's disk takes two seconds for each call: it leaves the in-sync sets, the others go on
as before, and it returns once its disk has healed.
"""

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from benchmarks.cluster import STALLED
from odradek.storage.files import RealFileSystem
from tests.lab import slow_broker
from tests.lab.cluster import LONG_SESSIONS, Cluster
from tests.lab.cuts import FOLLOWER, LEADER, OTHERS, PARTITIONS, look, make_topic
from tests.lab.standstill import Standstill
from tests.lab.verify.events import Event, Sent
from tests.lab.verify.workload import Workload
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire]

log = logging.getLogger(__name__)

TOPIC: Final = "kept"
DELAY_S: Final = 2.0
MEASURED_S: Final = 12.0
# Nobody else's loop stands still for so long: whoever waits for such a disk does so for longer. The
# slow one's does, which shows that they look.
STALL_MS: Final = int(DELAY_S * 1000 / 2)
WATCHED: Final = {
    "odradek.loop.stall.check.ms": "20",
    # The slow one lives on, though its loop waits more than once.
    **LONG_SESSIONS,
}
APART_S: Final = 1.0
PARTS: Final = 5
LEAST_SENT: Final = 100
# Kafka allows one and a half `replica.lag.time.max.ms` from the first record that is not fetched. A
# partition may get its own only then: the writer waits for the others with all its requests.
SHRUNK_WITHIN_S: Final = 2 * 1.5 * 4 + 5.0
FULL_WITHIN_S: Final = 30.0
P99_TIMES: Final = 2.0
# Whoever waits for such a disk waits longer; a crowded machine can do as much for a while.
P99_MORE_S: Final = DELAY_S / 4


def stalls(lab: Cluster, broker: int) -> list[tuple[int, int]]:
    """How long the broker's loop stood still each time, less what the machine gave to others."""
    printed = (lab.brokers[broker].directory / "broker.out").read_text(errors="replace")
    found = STALLED.findall(printed)
    return [(broker, int(late_ms) - int(queued_ms)) for late_ms, _, queued_ms in found]


def p99_s(events: Iterable[Event], begin_s: float, end_s: float) -> float:
    """Of the time to an acknowledgement: the best of some parts of the time between the two.

    What else a crowded machine has to do makes single parts slower, and none faster.
    """
    sent = [event for event in events if isinstance(event, Sent) and event.code == 0]
    part_s = (end_s - begin_s) / PARTS
    best_s = []
    for part in range(PARTS):
        first_s = begin_s + part * part_s
        took_s = sorted(e.took_s for e in sent if first_s <= e.sent_s < first_s + part_s)
        if len(took_s) > LEAST_SENT:
            best_s.append(took_s[len(took_s) * 99 // 100])
    return min(best_s)


def test_what_a_thread_writes_ahead_is_slow_too(tmp_path: Path) -> None:
    """As much of what a follower fetches."""
    delays, path = tmp_path / "delays", tmp_path / "log"
    path.touch()
    slow_broker.write_delays(delays, {slow_broker.WRITE: 0.1})
    files = slow_broker.SlowFileSystem(RealFileSystem(), str(delays))
    staged = files.open_log(str(path), 0).stage(memoryview(b"records"), [])
    assert staged is not None
    begin_s = time.monotonic()
    staged.run()
    assert time.monotonic() - begin_s >= 0.1
    staged.close()
    assert path.read_bytes() == b""


@pytest.mark.timeout(400)
def test_a_follower_with_a_slow_disk(tmp_path: Path) -> None:
    with Standstill() as machine, Cluster("slow", directory=tmp_path, settings=WATCHED) as lab:
        lab.start_zookeeper()
        lab.start()
        make_topic(lab, TOPIC)
        lab.settle()
        with Workload(
            lab, TOPIC, partitions=PARTITIONS, writers=("librdkafka",), create=False
        ) as load:
            before_s = time.time()
            time.sleep(MEASURED_S)
            with lab.slow_disk(FOLLOWER, read=DELAY_S, write=DELAY_S, fsync=DELAY_S):
                slow_s = time.time()
                until(
                    lambda: all(FOLLOWER not in isr for isr in look(lab, TOPIC).isrs),
                    "the slow follower leaves the in-sync sets",
                    SHRUNK_WITHIN_S,
                    machine.own_s,
                )
                shrunk_s = time.time()
                time.sleep(MEASURED_S)
                healed_s = time.time()
                assert {*look(lab, TOPIC).leaders} == {LEADER}
                assert {*OTHERS} <= {*lab.live()}
            until(
                lambda: look(lab, TOPIC).is_full,
                "all are in sync again",
                FULL_WITHIN_S,
                machine.own_s,
            )
            full_s = time.time()
        # What was under way at a change is of neither time.
        baseline_s = p99_s(load.events, before_s + APART_S, slow_s - APART_S)
        meanwhile_s = p99_s(load.events, shrunk_s + APART_S, healed_s - APART_S)
        log.info(
            "shrunk_s=%.2f full_s=%.2f p99_before_ms=%.1f p99_meanwhile_ms=%.1f",
            shrunk_s - slow_s,
            full_s - healed_s,
            baseline_s * 1000,
            meanwhile_s * 1000,
        )
        stalled = [stall for broker in (LEADER, *OTHERS) for stall in stalls(lab, broker)]
        others_ms = max((own_ms for broker, own_ms in stalled if broker != FOLLOWER), default=0)
        assert others_ms <= STALL_MS + machine.longest_s * 1000, stalled
        assert max(own_ms for broker, own_ms in stalled if broker == FOLLOWER) > STALL_MS
        assert load.verify() == []
        assert meanwhile_s <= max(P99_TIMES * baseline_s, baseline_s + P99_MORE_S)
