"""Every pair of states: what may follow what, and that nothing else happens."""

import pytest

from odradek.broker.core.controller.partition_machine import change_partitions
from odradek.broker.core.controller.replica_machine import change_replicas
from odradek.broker.core.controller.status import (
    PARTITION_BEFORE,
    REPLICA_BEFORE,
    PartitionStatus,
    ReplicaStatus,
)

from .model import Cluster

KEY = ("t", 0)


def cluster_with_topic() -> Cluster:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", (1, 2))
    cluster.take()
    cluster.effects.clear()
    return cluster


def test_the_tables_know_all_states() -> None:
    assert PARTITION_BEFORE.keys() == set(PartitionStatus)
    assert REPLICA_BEFORE.keys() == set(ReplicaStatus)
    assert sum(map(len, PARTITION_BEFORE.values())) == 8
    assert sum(map(len, REPLICA_BEFORE.values())) == 14


@pytest.mark.parametrize("before", PartitionStatus)
@pytest.mark.parametrize("after", PartitionStatus)
def test_a_partition_changes(
    before: PartitionStatus, after: PartitionStatus, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_with_topic()
    context = cluster.context
    context.partition_status[KEY] = before
    if before is PartitionStatus.NEW:
        del context.states[KEY], cluster.store.states[KEY]
    cluster.run(change_partitions(context, [KEY], after))
    if before in PARTITION_BEFORE[after]:
        assert context.partition_status[KEY] is after
        assert bool(cluster.take()) == (after is PartitionStatus.ONLINE)
    else:
        assert context.partition_status[KEY] is before
        assert not cluster.effects
        assert "partition state change refused" in caplog.text


@pytest.mark.parametrize("before", ReplicaStatus)
@pytest.mark.parametrize("after", ReplicaStatus)
def test_a_replica_changes(
    before: ReplicaStatus, after: ReplicaStatus, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_with_topic()
    context = cluster.context
    context.replica_status[KEY][2] = before
    if before is ReplicaStatus.NON_EXISTENT:
        del context.replica_status[KEY][2]
    cluster.run(change_replicas(context, {2: [KEY]}, after))
    now = context.replica_status[KEY].get(2, ReplicaStatus.NON_EXISTENT)
    if before not in REPLICA_BEFORE[after]:
        assert now is before
        assert not cluster.effects
        assert "replica state change refused" in caplog.text
        return
    assert now is after
    sent = {request.broker_id: request for request in cluster.take()}
    match after:
        case ReplicaStatus.NEW:
            assert [s.is_new for s in sent[2].leader_and_isr] == [True]
            assert not sent[1].leader_and_isr
        case ReplicaStatus.ONLINE if before is not ReplicaStatus.NEW:
            assert [s.is_new for s in sent[2].leader_and_isr] == [False]
            assert not sent[1].leader_and_isr
        case ReplicaStatus.OFFLINE:
            assert [(s.leader_epoch, s.delete) for s in sent[2].stop_replicas] == [(0, False)]
            assert [(s.leader_epoch, s.isr) for s in sent[1].leader_and_isr] == [(1, (1,))]
            assert cluster.state("t") == (1, 1, (1,), 1)
        case ReplicaStatus.DELETION_STARTED:
            assert [(s.leader_epoch, s.delete) for s in sent[2].stop_replicas] == [(0, True)]
        case ReplicaStatus.NON_EXISTENT:
            assert context.assignment(KEY).replicas == (1,)
            assert context.states[KEY].replicas == (1,)
        case _:
            assert not sent


def test_a_leader_is_no_new_replica(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_with_topic()
    del cluster.context.replica_status[KEY][1]
    cluster.run(change_replicas(cluster.context, {1: [KEY]}, ReplicaStatus.NEW))
    assert 1 not in cluster.context.replica_status[KEY]
    assert not cluster.take()
    assert "the leader is not a new replica" in caplog.text
