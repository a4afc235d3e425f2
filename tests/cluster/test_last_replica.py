"""The last replica in sync may have lost records with its machine: it leads, or it waits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import admin
from tests.lab.cluster import PATIENT
from tests.support.waiting import until

from .clusters import KINDS, PARAMS, Cluster, ZooKeeper
from .last_replicas import (
    DECLINED,
    LED,
    accept_loss,
    check,
    cut,
    data_dir,
    log_end,
    shrink_to_none,
    start,
    start_machine_anew,
    suspects,
    write,
)

pytestmark = [pytest.mark.wire, pytest.mark.timeout(240)]

WAIT = {
    # Who leads, and who has how much, is decided by kills alone.
    **PATIENT,
    "odradek.unclean.last.replica": "wait",
    "min.insync.replicas": "1",
    "log.retention.ms": "-1",  # the batches are old
}
UNCLEAN = {"unclean.leader.election.enable": "true"}


@pytest.fixture(params=PARAMS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with KINDS[request.param](tmp_path, WAIT) as running:
        yield running


def create(cluster: Cluster, topic: str, partitions: int, **configs: str) -> None:
    """Broker 0 is preferred, then 1, then 2."""
    assignment = [[0, 1, 2]] * partitions
    admin.create_topic(cluster, topic, assignment=assignment, configs=configs)
    cluster.settle(topic)


def values(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def ends(cluster: Cluster, topic: str, partition: int) -> set[int]:
    """Where the three replicas end."""
    return {log_end(cluster, broker, topic, partition) for broker in (0, 1, 2)}


def declined(cluster: Cluster, topic: str, partition: int) -> int:
    """How often a broker has said so."""
    return cluster.log().count(f"{DECLINED} topic={topic} partition={partition}")


def test_a_suspect_last_replica_waits_for_the_others(cluster: Cluster) -> None:
    create(cluster, "whole", 3)
    create(cluster, "accepted", 1)
    create(cluster, "allowed", 1)
    shrink_to_none(cluster, {"whole": 3, "accepted": 1, "allowed": 1})
    start_machine_anew(cluster, 0)
    cut(cluster, 0, "whole", 1, 25)
    cut(cluster, 0, "whole", 2, 15)
    cut(cluster, 0, "accepted", 0, 25)
    cut(cluster, 0, "allowed", 0, 25)
    start(cluster, 1)
    start(cluster, 0)
    until(lambda: declined(cluster, "accepted", 0), "broker 0 declines")
    keys = [("whole", 0), ("whole", 1), ("whole", 2), ("accepted", 0)]
    assert suspects(cluster, 0) >= set(keys)

    cluster.stop(0)  # a clean stop does not wash it clean
    before = declined(cluster, "accepted", 0)
    start(cluster, 0)
    until(lambda: declined(cluster, "accepted", 0) > before, "it declines again")
    # It says so before the controller hears of it.
    until(lambda: [cluster.leader(*key) for key in keys] == [-1] * 4, "nobody leads")
    assert [log_end(cluster, 0, *key) for key in keys] == [30, 25, 15, 25]

    admin.alter_configs(cluster, admin.TOPIC, "allowed", put=UNCLEAN, broker=1)
    until(lambda: cluster.leader("allowed", 0) >= 0, "somebody leads")
    assert cluster.leader("allowed", 0) == 0, "1 is alive, but has less"
    assert accept_loss(cluster, "accepted", 0) == "elected a leader of accepted-0\n"
    until(lambda: cluster.leader("accepted", 0) == 0, "the one that has more leads")
    assert cluster.leader("whole", 1) == -1
    assert accept_loss(cluster, "accepted", 0) == "every leader is the right one already\n"
    write(cluster, "accepted", 0, [b"new"])

    start(cluster, 2)
    until(lambda: [cluster.leader(*key) for key in keys] == [0, 0, 1, 0], "the greatest lead")
    cluster.settle()
    expected = [values(30), values(25), values(20), [*values(25), b"new"]]
    for key, its in zip(keys, expected, strict=True):
        check(cluster, *key, its)
    for key in keys:
        write(cluster, *key, [b"later"])
    until(lambda: all(len(ends(cluster, *key)) == 1 for key in keys), "all end together")
    until(lambda: not suspects(cluster, 0).intersection(keys), "nobody is suspect any more")


def test_a_kill_alone_makes_nobody_suspect(cluster: Cluster) -> None:
    create(cluster, "t", 1)
    shrink_to_none(cluster, {"t": 1})
    start(cluster, 1)
    start(cluster, 0)
    until(lambda: cluster.leader("t", 0) == 0, "broker 0 leads")
    check(cluster, "t", 0, values(30))
    assert DECLINED not in cluster.log()
    assert LED not in cluster.log()


@pytest.mark.java
def test_a_suspect_last_replica_leads_where_that_is_wanted(tmp_path: Path) -> None:
    settings = {**WAIT, "odradek.unclean.last.replica": "lead"}
    with ZooKeeper(tmp_path, settings) as cluster:
        create(cluster, "t", 1)
        shrink_to_none(cluster, {"t": 1})
        start_machine_anew(cluster, 0)
        cut(cluster, 0, "t", 0, 25)
        start(cluster, 1)
        start(cluster, 0)
        until(lambda: cluster.leader("t", 0) == 0, "broker 0 leads")
        check(cluster, "t", 0, values(25))
        said = f"{LED}, committed records may be lost topic=t partition=0 log_end_offset=25 "
        # It may be read, and be named as the leader, before it is told to lead.
        until(lambda: said in cluster.log(), "it leads, and says so")
        assert "reason=odradek.unclean.last.replica=lead" in cluster.log()
        until(lambda: ("t", 0) not in suspects(cluster, 0), "it is taken as it is")


@pytest.mark.java
def test_all_go_down_and_one_with_its_machine(tmp_path: Path) -> None:
    """It led, all were in sync, and it is back first: the others have what it has lost."""
    with ZooKeeper(tmp_path, WAIT) as cluster:
        create(cluster, "t", 1)
        write(cluster, "t", 0, values(30))
        for broker in (0, 1, 2):
            cluster.kill(broker, expire=False)
        start_machine_anew(cluster, 0)
        cut(cluster, 0, "t", 0, 25)
        for broker in (0, 1, 2):
            start(cluster, broker)
        until(lambda: cluster.leader("t", 0) in (1, 2), "one that has all leads")
        cluster.settle()
        check(cluster, "t", 0, values(30))
        assert declined(cluster, "t", 0)
        until(lambda: ("t", 0) not in suspects(cluster, 0), "it has caught up")


def test_a_topic_whose_last_replica_waits_can_be_deleted(cluster: Cluster) -> None:
    """It counts as offline for as long as it declines, and nobody is elected for such a topic."""
    create(cluster, "doomed", 1)
    shrink_to_none(cluster, {"doomed": 1})
    start_machine_anew(cluster, 0)
    cut(cluster, 0, "doomed", 0, 25)
    start(cluster, 1)
    start(cluster, 0)
    until(lambda: declined(cluster, "doomed", 0), "broker 0 declines")
    admin.delete_topic(cluster, "doomed", wait=False)
    start(cluster, 2)
    until(lambda: not cluster.deletions(["doomed"]), "the topic is deleted")
    until(lambda: not (data_dir(cluster, 0) / "doomed-0").exists(), "so is its log")
