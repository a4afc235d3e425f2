"""What leaders may ask for in AlterPartition, in the order in which Kafka checks it."""

from typing import Any

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import Effect, WriteStates
from odradek.broker.core.partition_state import PartitionState
from odradek.protocol.errors import ErrorCode, Refused

from .model import Cluster

KEY = ("t", 0)


def started() -> Cluster:
    """Partition 0 is led by 1 with leader epoch 1, partition epoch 2."""
    cluster = Cluster(1, 2, 3, 4)
    cluster.fail_over()
    cluster.create("t", (1, 2, 3), (2, 3, 1))
    cluster.bounce(3)
    cluster.alter(KEY, 1, 2, 3)
    assert cluster.state("t") == (1, 1, (1, 2, 3), 2)
    cluster.take()
    cluster.store.log.clear()
    return cluster


def test_an_isr_shrinks_and_grows() -> None:
    cluster = started()
    changed = cluster.alter(KEY, 1, 2)
    assert isinstance(changed, PartitionState)
    assert (changed.leader_epoch, changed.isr, changed.partition_epoch) == (1, (1, 2), 3)
    assert cluster.state("t") == (1, 1, (1, 2), 3)
    sent = cluster.take()
    assert [(r.broker_id, list(r.leader_and_isr)) for r in sent] == [(n, []) for n in (1, 2, 3, 4)]
    assert all([s.isr for s in r.update_metadata or ()] == [(1, 2)] for r in sent)
    assert isinstance(cluster.alter(KEY, 1, 2, 3), PartitionState)
    assert cluster.state("t") == (1, 1, (1, 2, 3), 4)


@pytest.mark.parametrize(
    ("isr", "values", "code"),
    [
        ((1, 2), {"partition_epoch": 3}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 2, "partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2, 3), {"leader_epoch": 0, "partition_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2, 3), {}, None),
        ((1, 2, 3), {"partition_epoch": 0}, None),
        ((1, 2), {"partition_epoch": 1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"is_recovering": True}, ErrorCode.INVALID_REQUEST),
        ((1,), {"is_recovering": True}, ErrorCode.INVALID_REQUEST),
        ((1, 9), {}, ErrorCode.INELIGIBLE_REPLICA),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader": 2}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_checks(isr: tuple[int, ...], values: dict[str, Any], code: ErrorCode | None) -> None:
    cluster = started()
    result = cluster.alter(KEY, *isr, **values)
    if code is None:
        assert result == cluster.context.states[KEY]
    else:
        assert result == code
    assert not cluster.store.log
    assert cluster.take(), "metadata is told also then"


def test_who_was_given_up_stays_in_sync_while_others_come_and_go() -> None:
    """As when a reassignment ends; Kafka 3.9.2 takes this, too."""
    cluster = started()
    cluster.set_state(KEY, isr=(1, 2, 4))
    cluster.run(procedures.isr_changes_noticed(cluster.context, [KEY]))
    for isr in ((1, 2, 4, 3), (1, 4), (1,)):
        changed = cluster.alter(KEY, *isr)
        assert isinstance(changed, PartitionState)
        assert changed.isr == isr
    assert cluster.alter(KEY, 1, 4) == ErrorCode.INVALID_REQUEST, "it does not come back"


def test_a_broker_that_shuts_down_joins_no_isr() -> None:
    cluster = started()
    cluster.run(procedures.shut_down(cluster.context, 3, cluster.brokers[3].epoch))
    assert cluster.alter(KEY, 1, 2, 3) == ErrorCode.INELIGIBLE_REPLICA


def test_an_unknown_partition() -> None:
    cluster = started()
    change = procedures.IsrChange("t", 7, 0, 0, (1,), is_recovering=False)
    procedure = procedures.alter_partitions(cluster.context, 1, 1, [change])
    assert cluster.run(procedure) == {("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 0), (1, 2), (1, -1), (9, 1)])
def test_another_broker_epoch(broker_id: int, epoch: int) -> None:
    cluster = started()
    with pytest.raises(Refused) as refused:
        cluster.run(procedures.alter_partitions(cluster.context, broker_id, epoch, []))
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_recovered_leader_says_so() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", (1, 2))
    cluster.alter(KEY, 1)
    cluster.store.unclean_topics.add("t")
    cluster.kill(1)
    assert cluster.store.states[KEY].is_recovering
    cluster.start(1)
    assert cluster.alter(KEY, 2, 1, is_recovering=True) == ErrorCode.INVALID_REQUEST
    assert isinstance(cluster.alter(KEY, 2), PartitionState)
    assert not cluster.store.states[KEY].is_recovering
    assert isinstance(cluster.alter(KEY, 2, 1), PartitionState)


def test_somebody_else_was_first() -> None:
    cluster = started()

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteStates):
            cluster.set_state(KEY, leader_epoch=9)

    cluster.store.before = interrupt
    assert cluster.alter(KEY, 1, 2) == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.context.states[KEY].isr == (1, 2, 3)


def test_what_others_wrote_is_read_and_told() -> None:
    cluster = started()
    cluster.set_state(KEY, isr=(1,))
    cluster.run(procedures.isr_changes_noticed(cluster.context, [KEY, ("t", 9)]))
    assert cluster.context.states[KEY].isr == (1,)
    sent = cluster.take()
    assert [[s.key for s in r.update_metadata or ()] for r in sent] == [[KEY]] * 4
