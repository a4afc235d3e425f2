"""Replicas and leaders are moved under load: no client hears of it, and nothing is lost.

Four brokers, RF 3, min ISR 2, idempotent producers with acks=all of three kinds, and a group. Each
broker leads one partition and gets one with every turn. In the end the logs of those that have a
partition then are the same byte for byte.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.lab import admin
from tests.lab.cluster import Cluster
from tests.lab.verify.workload import Workload
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire]

BROKERS: Final = (0, 1, 2, 3)
SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    # However low a throttle is, there is a fetch when the last one is forgotten: after 11 s, if
    # this is not said. Two within the time in which nobody can write would end a move.
    "replication.quota.window.num": "121",
}
NAME: Final = "moved"
TOPIC, BROKER = 2, 4
BETWEEN: Final = 500
TIMEOUT_S: Final = 60.0
# So slow that a new replica never catches up with what is being written.
STANDSTILL: Final = {
    "leader.replication.throttled.rate": "1",
    "follower.replication.throttled.rate": "1",
}
Turn = Callable[[Cluster, Workload, int], None]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster("odradek", BROKERS, directory=tmp_path, settings=SETTINGS) as cluster:
        cluster.start_zookeeper()
        cluster.start()
        yield cluster


def assignment(turn: int) -> list[list[int]]:
    """The replicas of each partition in this turn."""
    count = len(BROKERS)
    return [[(first + turn + n) % count for n in range(3)] for first in range(count)]


def throttled(turn: int) -> dict[str, str]:
    """What the tools throttle when a turn begins: old replicas send, new ones take."""
    before = enumerate(assignment(turn - 1))
    return {
        "leader.replication.throttled.replicas": ",".join(
            f"{partition}:{broker}" for partition, old in before for broker in old
        ),
        "follower.replication.throttled.replicas": ",".join(
            f"{partition}:{new[-1]}" for partition, new in enumerate(assignment(turn))
        ),
    }


def is_throttled(lab: Cluster, broker: int) -> bool:
    """Whether a broker uses the settings of the standstill."""
    keys = [*STANDSTILL]
    return admin.describe_configs(lab, BROKER, str(broker), keys, broker=broker) == STANDSTILL


def begin(lab: Cluster, turn: int) -> None:
    moves = {(NAME, n): replicas for n, replicas in enumerate(assignment(turn))}
    admin.reassign(lab, moves)


def node(lab: Cluster, path: str) -> Any:
    data, _ = lab.client.retry(lab.client.get, path)
    return json.loads(data)


def moving(lab: Cluster) -> Mapping[str, list[int]]:
    """The partitions that are being moved, and the replicas that they get."""
    found: Mapping[str, list[int]] = node(lab, f"/brokers/topics/{NAME}")["adding_replicas"]
    return found


def until_moved(lab: Cluster, turn: int) -> None:
    wanted = {str(n): replicas for n, replicas in enumerate(assignment(turn))}

    def is_done() -> bool:
        found = node(lab, f"/brokers/topics/{NAME}")["partitions"]
        return not moving(lab) and bool(found == wanted)

    until(is_done, f"the replicas are those of turn {turn}", TIMEOUT_S)


def leaders(lab: Cluster) -> list[int]:
    path = f"/brokers/topics/{NAME}/partitions"
    return [node(lab, f"{path}/{n}/state")["leader"] for n in range(len(BROKERS))]


def move_and_stop_a_broker(lab: Cluster, load: Workload, turn: int) -> None:
    """All is moved, then the preferred replicas lead, then one of them goes and comes back."""
    begin(lab, turn)
    until_moved(lab, turn)
    admin.elect_preferred(lab, None)
    until(lambda: leaders(lab) == [new[0] for new in assignment(turn)], "the preferred lead")
    load.wait_for(BETWEEN, TIMEOUT_S)
    broker = turn % len(BROKERS)
    lab.settle()  # who is in sync now can take over
    lab.stop(broker)
    assert broker not in leaders(lab)
    load.wait_for(BETWEEN, TIMEOUT_S)
    lab.start(broker)


def move_and_kill(lab: Cluster, load: Workload, turn: int, *, the_controller: bool) -> None:
    """While all is being moved, and nothing can end, one that leads and that gets a replica dies.

    It comes back, the throttle goes, and all ends as it was asked for.
    """
    admin.alter_configs(lab, TOPIC, NAME, put=throttled(turn))
    admin.alter_configs(lab, BROKER, "", put=STANDSTILL)
    # Brokers hear of both in this order; who hears late moves what there is with the first fetch.
    until(lambda: all(is_throttled(lab, broker) for broker in BROKERS), "all hear of the throttle")
    begin(lab, turn)
    load.wait_for(BETWEEN, TIMEOUT_S)
    controller = until(lambda: _controller(lab), "there is a controller") - 1
    others = [broker for broker in leaders(lab) if broker != controller]
    victim = controller if the_controller else others[0]
    assert len(moving(lab)) == len(BROKERS)
    lab.kill(victim)
    until(
        lambda: lab.controller() not in (None, victim) and victim not in leaders(lab),
        f"others have taken over from broker {victim}",
    )
    load.wait_for(BETWEEN, TIMEOUT_S)
    lab.start(victim)
    assert len(moving(lab)) == len(BROKERS)
    live = next(broker for broker in BROKERS if broker != victim)
    admin.alter_configs(lab, TOPIC, NAME, remove=list(throttled(turn)), broker=live)
    admin.alter_configs(lab, BROKER, "", remove=list(STANDSTILL), broker=live)
    until_moved(lab, turn)


def _controller(lab: Cluster) -> int:
    found = lab.controller()
    return 0 if found is None else found + 1


def move_and_kill_the_controller(lab: Cluster, load: Workload, turn: int) -> None:
    move_and_kill(lab, load, turn, the_controller=True)


def move_and_kill_another(lab: Cluster, load: Workload, turn: int) -> None:
    move_and_kill(lab, load, turn, the_controller=False)


def move_under_load(lab: Cluster, *turns: Turn) -> None:
    configs = {"min.insync.replicas": "2"}
    admin.create_topic(lab, NAME, assignment=assignment(0), configs=configs)
    with Workload(
        lab, NAME, partitions=len(BROKERS), members=("librdkafka",), create=False
    ) as load:
        for number, turn in enumerate(turns, 1):
            load.wait_for(BETWEEN, TIMEOUT_S)
            turn(lab, load, number)
            lab.settle(timeout_s=TIMEOUT_S)
    assert load.verify() == []
    assert load.failed == 0, f"{load.failed} records failed or timed out: {load.history}"
    lab.settle()
    assert load.compare_logs(dict(enumerate(assignment(len(turns))))) == []


@pytest.mark.timeout(600)
def test_moves_under_load(lab: Cluster) -> None:
    move_under_load(lab, move_and_stop_a_broker, move_and_kill_the_controller)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_moves_under_load(lab: Cluster) -> None:
    every = (move_and_stop_a_broker, move_and_kill_the_controller, move_and_kill_another)
    move_under_load(lab, *itertools.islice(itertools.cycle(every), 20))
