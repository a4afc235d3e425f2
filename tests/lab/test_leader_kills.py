"""kill -9 under load: of leaders, of controllers, of all brokers at once.

Three brokers, RF 3, min ISR 2, idempotent producers with acks=all of three kinds: what was
acknowledged is there once and in order, and the replicas' logs are the same byte for byte.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.cluster import Cluster
from tests.lab.soak import Progress
from tests.lab.verify import effects
from tests.lab.verify.events import load_so_far
from tests.lab.verify.workload import Workload
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire]

TOPIC: Final = "kept"
SETTINGS: Final = {"offsets.topic.replication.factor": "3"}
# Acknowledged between two kills, so that each falls into a running load.
BETWEEN: Final = 1000
TIMEOUT_S: Final = 60.0
FULL_AGAIN_S: Final = 90.0
# In `make soak` a cluster lives for so many kills, then the next begins.
ROUND: Final = 10
ACKED_IN_ROUND: Final = 100_000
Kill = Callable[[Cluster, int], None]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS) as cluster:
        cluster.start_zookeeper()
        cluster.start()
        yield cluster


def leader(lab: Cluster, partition: int) -> int:
    """Whom the store names as the leader."""
    found: int = until(lambda: lab.leader(TOPIC, partition) + 1, f"{partition} has a leader") - 1
    return found


def until_noted(lab: Cluster) -> None:
    """Others have taken over, and the monitor has seen it: a slow one might look too late."""
    path = lab.history.path
    until(lambda: not effects.missing(load_so_far(path)), "what follows from the kill is noted")


def kill_a_leader(lab: Cluster, number: int) -> None:
    """Of one partition after the other; it comes back when another leads."""
    partition = number % 6
    victim = leader(lab, partition)
    lab.kill(victim)
    until(lambda: leader(lab, partition) != victim, f"partition {partition} has another leader")
    until_noted(lab)
    lab.start(victim)


def kill_the_controller(lab: Cluster, _: int) -> None:
    """It comes back when there is another."""
    until(lambda: lab.controller() is not None, "there is a controller")
    victim = lab.controller()
    assert victim is not None
    killed_s = time.time()
    lab.kill(victim)
    until(lambda: lab.controller() not in (None, victim), "there is another controller")
    lab.history.note("controller changed", f"broker {victim}", killed_s=killed_s)
    until_noted(lab)
    lab.start(victim)


def kill_everybody(lab: Cluster, _: int) -> None:
    """All at once; all come back."""
    for broker in lab.brokers:
        lab.kill(broker)
    lab.start()


KINDS: Final[dict[str, Kill]] = {
    "leaders": kill_a_leader,
    "controllers": kill_the_controller,
    "everybody": kill_everybody,
}
BROKERS_IN: Final = {"leaders": 1, "controllers": 1, "everybody": 3}


def kill_under_load(lab: Cluster, kind: str, kills: int, *, acked: int, rate: int) -> int:
    """Kill so often, check everything; returns how many records were acknowledged."""
    with Workload(lab, TOPIC, rate=rate) as load:
        for number in range(kills):
            load.wait_for(max(BETWEEN, acked // (kills + 1)), TIMEOUT_S)
            KINDS[kind](lab, number)
            lab.settle(timeout_s=FULL_AGAIN_S)
        load.wait_for(max(BETWEEN, acked - load.acknowledged), TIMEOUT_S)
    assert load.verify() == []
    load.require(acknowledged=acked, kills=kills * BROKERS_IN[kind])
    lab.settle()
    assert load.compare_logs() == []
    assert load.failed == 0, f"{load.failed} records failed or timed out: {load.history}"
    if kind == "controllers":
        for victim, note in effects.done(load.events, "controller changed"):
            assert effects.controller_changed(load.events, victim, note.details["killed_s"])
    return load.acknowledged


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "kills", "acked"),
    [("leaders", 2, 4_000), ("controllers", 1, 1_500), ("everybody", 1, 1_500)],
)
def test_nothing_acknowledged_is_lost(lab: Cluster, kind: str, kills: int, acked: int) -> None:
    kill_under_load(lab, kind, kills, acked=acked, rate=500)


@pytest.mark.soak
@pytest.mark.timeout(10_800)
@pytest.mark.parametrize(
    ("kind", "kills"), [("leaders", 100), ("controllers", 20), ("everybody", 20)]
)
def test_nothing_is_lost_however_often(tmp_path: Path, kind: str, kills: int) -> None:
    with Progress(f"kills-{kind}", kills) as progress:
        while progress.left:
            round_of = min(ROUND, progress.left)
            directory = tmp_path / str(progress.done)
            with Cluster("odradek", directory=directory, settings=SETTINGS) as lab:
                lab.start_zookeeper()
                lab.start()
                acked = kill_under_load(
                    lab, kind, round_of, acked=ACKED_IN_ROUND * round_of // ROUND, rate=600
                )
            progress.add(round_of, acknowledged=acked)
