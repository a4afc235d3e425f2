"""Leaders that change though nobody has died: elections that are asked for, and shutdowns."""

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import Effect, WriteStates
from odradek.broker.core.elections import ElectionType
from odradek.broker.core.partition_state import NO_LEADER, PartitionState, TopicPartition
from odradek.protocol.errors import ErrorCode, Refused

from .model import Cluster

KEY = ("t", 0)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def led_by(leader: int, *isr: int) -> Cluster:
    """Partition 0 of replicas 1 and 2 has this state at epoch 7; partition 1 was never led."""
    cluster = Cluster(1, 2, 3)
    cluster.fail_over()
    cluster.create("t", (1, 2), (9,))
    cluster.set_state(KEY, leader=leader, leader_epoch=7, isr=isr)
    cluster.fail_over()
    cluster.take()
    return cluster


def elect(
    cluster: Cluster, kind: ElectionType, *keys: TopicPartition
) -> dict[TopicPartition, PartitionState | ErrorCode]:
    results = cluster.run(procedures.elect(cluster.context, keys or None, kind))
    return {
        key: result.code if isinstance(result, Refused) else result
        for key, result in results.items()
    }


def test_the_preferred_replica_becomes_leader() -> None:
    cluster = led_by(2, 2, 1)
    elected = elect(cluster, PREFERRED, KEY)[KEY]
    assert isinstance(elected, PartitionState)
    assert (elected.leader, elected.leader_epoch, elected.isr) == (1, 8, (2, 1))
    assert cluster.state("t") == (1, 8, (2, 1), elected.partition_epoch)
    assert [(r.broker_id, len(r.leader_and_isr)) for r in cluster.take()] == [
        (1, 1),
        (2, 1),
        (3, 0),
    ]
    assert elect(cluster, PREFERRED) == {
        KEY: ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert not cluster.take()


def test_an_election_that_brings_nobody() -> None:
    cluster = led_by(2, 2)
    assert elect(cluster, PREFERRED, KEY)[KEY] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(cluster, UNCLEAN, KEY)[KEY] == ErrorCode.ELECTION_NOT_NEEDED
    cluster.kill(2)
    cluster.kill(1)
    assert elect(cluster, UNCLEAN, KEY)[KEY] == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert elect(cluster, UNCLEAN, ("t", 1))["t", 1] == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_an_unclean_election_says_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster = led_by(2, 2)
    cluster.kill(2)
    assert cluster.state("t")[0] == NO_LEADER
    elected = elect(cluster, UNCLEAN, KEY)[KEY]
    assert isinstance(elected, PartitionState)
    assert (elected.leader, elected.isr, elected.is_recovering) == (1, (1,), True)
    assert cluster.store.states[KEY].is_recovering
    assert "leader elected that is not in sync" in caplog.text


def test_what_is_not_there_and_what_is_going() -> None:
    cluster = led_by(2, 2, 1)
    cluster.kill(3)
    cluster.create("going", (1, 3))
    cluster.delete("going")
    keys = [("t", 2), ("absent", 0), ("going", 0)]
    assert elect(cluster, PREFERRED, *keys, *keys) == {
        ("t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("going", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_a_state_that_changes_meanwhile() -> None:
    cluster = led_by(2, 2, 1)
    changes = [(2, 1, 3)]

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteStates) and changes:
            cluster.set_state(KEY, isr=changes.pop())

    cluster.store.before = interrupt
    elect(cluster, PREFERRED, KEY)
    assert cluster.state("t")[2] == (2, 1, 3)


# Rebalancing.


def unbalanced() -> Cluster:
    """Ten partitions prefer broker 1; two of them are led by broker 2."""
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", *[(1, 2)] * 10)
    for partition in (3, 4):
        cluster.set_state(("t", partition), leader=2)
    cluster.fail_over()
    cluster.take()
    return cluster


@pytest.mark.parametrize(("percent", "moves"), [(19, True), (20, False), (100, False), (0, True)])
def test_leaders_return_when_too_many_are_away(percent: int, moves: bool) -> None:
    cluster = unbalanced()
    cluster.run(procedures.rebalance(cluster.context, percent))
    assert cluster.state("t", 3)[0] == (1 if moves else 2)
    assert bool(cluster.take()) == moves


def test_a_topic_that_is_being_deleted_does_not_count_as_away() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.fail_over()
    cluster.create("t", *[(1, 2)] * 10)
    cluster.create("u", (1, 3))
    for partition in (3, 4):
        cluster.set_state(("t", partition), leader=2)
    cluster.fail_over()
    cluster.kill(3)
    cluster.delete("u")
    assert cluster.context.deletions_halted == {"u"}
    cluster.take()
    cluster.run(procedures.rebalance(cluster.context, 20))
    assert not cluster.take()
    cluster.run(procedures.rebalance(cluster.context, 19))
    assert cluster.state("t", 3)[0] == 1


def test_no_leader_returns_who_is_not_in_sync() -> None:
    cluster = unbalanced()
    cluster.alter(("t", 3), 2)
    cluster.run(procedures.rebalance(cluster.context, 10))
    assert cluster.state("t", 3)[0] == 2
    assert cluster.state("t", 4)[0] == 1


def test_elections_asked_for_by_a_node() -> None:
    cluster = unbalanced()
    asked = [("t", 3), ("t", 0), ("absent", 0)]
    cluster.run(procedures.preferred_elections_requested(cluster.context, asked))
    assert [cluster.state("t", p)[0] for p in (3, 4)] == [1, 2]
    cluster.fail_over(1, preferred=[("t", 4)])
    assert cluster.state("t", 4)[0] == 1


# Controlled shutdown.


def test_a_broker_shuts_down() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.fail_over()
    cluster.create("t", (1, 2), (2, 1), (1,), (1, 3), (2, 3))
    cluster.alter(("t", 3), 1)
    cluster.take()
    assert cluster.run(procedures.shut_down(cluster.context, 1, 1)) == [("t", 3)]
    assert cluster.state("t", 0) == (2, 1, (2,), 1)
    assert cluster.state("t", 1) == (2, 1, (2,), 1)
    assert cluster.state("t", 2) == (1, 0, (1,), 0)
    assert cluster.state("t", 3) == (1, 0, (1,), 1)
    assert cluster.state("t", 4) == (2, 0, (2, 3), 0)
    stopped = [(r.broker_id, s.key, s.delete) for r in cluster.take() for s in r.stop_replicas]
    assert stopped == [(1, ("t", 1), False)] * 2
    assert cluster.run(procedures.shut_down(cluster.context, 1, -1)) == [("t", 3)]
    cluster.kill(1)
    assert not cluster.context.shutting_down
    assert cluster.state("t", 3)[0] == NO_LEADER
    cluster.start(1)
    assert cluster.state("t", 3)[0] == 1


def test_brokers_that_shut_down_do_not_lead() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.fail_over()
    cluster.create("t", (1, 2, 3))
    cluster.run(procedures.shut_down(cluster.context, 2, 1))
    assert cluster.state("t") == (1, 1, (1, 3), 1)
    cluster.run(procedures.shut_down(cluster.context, 1, 1))
    assert cluster.state("t") == (3, 2, (3,), 2)
    assert cluster.run(procedures.shut_down(cluster.context, 3, 1)) == [("t", 0)]
    assert cluster.state("t") == (3, 2, (3,), 2)


def test_who_may_not_shut_down() -> None:
    cluster = Cluster(1)
    cluster.fail_over()
    cluster.bounce(1)
    for broker_id, epoch, code in (
        (9, 1, ErrorCode.BROKER_NOT_AVAILABLE),
        (9, -1, ErrorCode.BROKER_NOT_AVAILABLE),
        (1, 1, ErrorCode.STALE_BROKER_EPOCH),
    ):
        with pytest.raises(Refused) as refused:
            cluster.run(procedures.shut_down(cluster.context, broker_id, epoch))
        assert refused.value.code == code
    assert cluster.run(procedures.shut_down(cluster.context, 1, 3)) == []
