"""Rolling restarts under load, with producers and groups of three kinds of clients.

Each broker in turn is stopped with SIGTERM and started again. No client gives up, nothing is lost
or delivered out of turn, groups go on where they were while their coordinators move.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.cluster import PATIENT, Cluster
from tests.lab.soak import Progress
from tests.lab.verify.workload import Workload
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire]

TOPIC: Final = "rolled"
GROUPS: Final = "__consumer_offsets"
SETTINGS: Final = {
    **PATIENT,  # who stands still while another stops can take over all the same
    "offsets.topic.replication.factor": "3",
}
MEMBERS: Final = ("java", "librdkafka", "librdkafka", "aiokafka")
BETWEEN: Final = 500
TIMEOUT_S: Final = 60.0
ROUNDS_AT_ONCE: Final = 5


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS) as cluster:
        cluster.start_zookeeper()
        cluster.start()
        yield cluster


def coordinators(lab: Cluster) -> dict[str, int]:
    """Who leads each partition of the groups' topic."""
    partitions = lab.children(f"/brokers/topics/{GROUPS}/partitions")
    return {partition: lab.leader(GROUPS, int(partition)) for partition in partitions}


def restart_each(lab: Cluster, load: Workload) -> int:
    """Once around; returns how many partitions of groups changed their coordinator."""
    moved = 0
    for broker in lab.brokers:
        lab.settle()  # who is in sync now can take over
        before = coordinators(lab)
        lab.stop(broker)
        after = coordinators(lab)
        assert broker not in after.values(), f"it handed its groups to nobody: {after}"
        moved += sum(1 for partition in before if before[partition] != after[partition])
        lab.start(broker)
        lab.settle()
        polled = load.polled
        load.wait_for(BETWEEN, TIMEOUT_S)
        until(lambda: load.polled >= polled + BETWEEN, "members are given more")  # noqa: B023
    return moved


def roll(lab: Cluster, rounds: int, *, rate: int) -> int:
    """So many rounds, then check everything; returns how many records were acknowledged."""
    moved = 0
    with Workload(lab, TOPIC, members=MEMBERS, rate=rate) as load:
        for _ in range(rounds):
            moved += restart_each(lab, load)
    assert load.verify() == []
    assert load.failed == 0, f"{load.failed} records failed or timed out: {load.history}"
    assert moved >= rounds
    lab.settle()
    assert load.compare_logs() == []
    return load.acknowledged


@pytest.mark.timeout(600)
def test_clients_carry_on_through_rolling_restarts(lab: Cluster) -> None:
    roll(lab, 1, rate=200)


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_clients_carry_on_however_often(tmp_path: Path) -> None:
    with Progress("rolling", 20) as progress:
        while progress.left:
            rounds = min(ROUNDS_AT_ONCE, progress.left)
            directory = tmp_path / str(progress.done)
            with Cluster("odradek", directory=directory, settings=SETTINGS) as lab:
                lab.start_zookeeper()
                lab.start()
                acked = roll(lab, rounds, rate=300)
            progress.add(rounds, acknowledged=acked)
