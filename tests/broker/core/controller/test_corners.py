"""What seldom happens, and yet has one right answer."""

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import (
    Effect,
    ReplicaAssignment,
    StoredState,
    WriteStates,
)
from odradek.broker.core.controller.request_batch import RequestBatch
from odradek.broker.core.controller.requests import LEADER_EPOCH_UNKNOWN
from odradek.broker.core.controller.status import ReplicaStatus
from odradek.broker.core.partition_state import LEADER_IS_DELETED, NO_LEADER
from odradek.protocol.errors import ErrorCode

from .model import Cluster, topic_node

KEY = ("t", 0)


def started(*replicas: int, live: tuple[int, ...] = (1, 2, 3, 4)) -> Cluster:
    cluster = Cluster(*live)
    cluster.fail_over()
    cluster.create("t", replicas)
    cluster.deliver()
    cluster.take()
    return cluster


def test_later_entries_of_a_batch_replace_earlier_ones() -> None:
    cluster = started(1, 2)
    batch = RequestBatch(cluster.context)
    state = cluster.context.states[KEY]
    batch.add_leader_and_isr((1, 9), state, is_new=True)
    batch.add_leader_and_isr((1, 2), state._replace(leader_epoch=5))
    batch.add_stop_replica(1, KEY, delete=True)
    batch.add_stop_replica(1, KEY, delete=False)
    batch.add_stop_replica(2, ("u", 0), delete=False)
    cluster.run(batch.send())
    one, two, three, four = cluster.take()
    assert [(s.leader_epoch, s.is_new) for s in one.leader_and_isr] == [(5, True)]
    assert [(s.leader_epoch, s.is_new) for s in two.leader_and_isr] == [(5, False)]
    assert [s.delete for s in one.stop_replicas] == [True]
    assert [s.leader_epoch for s in two.stop_replicas] == [LEADER_EPOCH_UNKNOWN]
    assert three.update_metadata == four.update_metadata == one.update_metadata
    cluster.run(RequestBatch(cluster.context).send())
    assert not cluster.take()


def test_a_broker_that_shuts_down_gets_no_new_replicas() -> None:
    cluster = started(1, 2)
    cluster.run(procedures.shut_down(cluster.context, 2, 1))
    cluster.take()
    cluster.create("u", (2, 1))
    assert cluster.state("u") == (1, 0, (1,), 0)
    assert [r.broker_id for r in cluster.take() if r.leader_and_isr] == [1]


def test_who_led_until_now_is_told_who_leads() -> None:
    cluster = started(1, 2)
    cluster.run(procedures.shut_down(cluster.context, 1, 1))
    assert [r.broker_id for r in cluster.take() if r.leader_and_isr] == [1, 2]


def test_a_replica_that_goes_is_only_stopped() -> None:
    cluster = started(1, 2)
    cluster.run(procedures.shut_down(cluster.context, 2, 1))
    sent = cluster.take()
    assert [r.broker_id for r in sent if r.leader_and_isr] == [1]
    assert [r.broker_id for r in sent if r.stop_replicas] == [2, 2]


def test_the_isr_changes_while_a_replica_is_taken_out() -> None:
    cluster = started(1, 2, 3)
    interruptions = [(1, 2)]

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteStates) and interruptions:
            cluster.set_state(KEY, isr=interruptions.pop())

    cluster.store.before = interrupt
    cluster.kill(2)
    assert cluster.state("t") == (1, 1, (1,), 2)


def test_a_death_is_told_though_no_partition_changes() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.run(procedures.shut_down(cluster.context, 2, 1))
    cluster.create("t", (2,))
    assert KEY not in cluster.store.states
    cluster.take()
    cluster.kill(2)
    assert [(r.broker_id, r.update_metadata) for r in cluster.take()] == [(1, [])]


def test_a_doomed_partition_gets_no_leader() -> None:
    cluster = started(1, 2)
    cluster.store.deletions.add("t")
    del cluster.brokers[1]
    cluster.fail_over(2)
    assert cluster.state("t") == (NO_LEADER, 1, (2,), 1)
    told = [s.leader for r in cluster.take() for s in r.update_metadata or ()]
    assert set(told) == {LEADER_IS_DELETED}


def test_a_deletion_without_state_nodes() -> None:
    cluster = started(1, 2)
    cluster.store.states.clear()
    cluster.delete("t")
    cluster.deliver()
    assert "t" not in cluster.store.topics


def test_dead_replicas_of_a_deletion() -> None:
    cluster = started(1, 2)
    cluster.kill(2)
    cluster.delete("t")
    status = cluster.context.replica_status[KEY]
    assert status == {1: ReplicaStatus.DELETION_STARTED, 2: ReplicaStatus.DELETION_INELIGIBLE}


def test_answers_for_topics_that_stay() -> None:
    cluster = started(1, 2)
    before = cluster.context.replica_status[KEY].copy()
    for code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
        cluster.run(procedures.stop_replica_answered(cluster.context, 2, {KEY: code}))
    assert cluster.context.replica_status[KEY] == before
    assert not cluster.take()


def test_a_broker_that_starts_resumes_its_reassignments() -> None:
    cluster = started(1, 2)
    cluster.run(procedures.reassign(cluster.context, {KEY: (3, 4)}))
    cluster.set_state(KEY, isr=(1, 2, 4))
    cluster.kill(3)
    cluster.set_state(KEY, isr=(1, 2, 3, 4))
    cluster.brokers.pop(2)
    cluster.start(3)
    assert cluster.context.assignment(KEY) == ReplicaAssignment((3, 4))
    assert cluster.context.replica_status[KEY] == {
        3: ReplicaStatus.ONLINE,
        4: ReplicaStatus.ONLINE,
    }


def test_the_end_of_a_reassignment_is_told_to_all() -> None:
    cluster = started(1, 2)
    cluster.run(procedures.reassign(cluster.context, {KEY: (3, 4)}))
    cluster.take()
    cluster.alter(KEY, 1, 2, 3, 4)
    *_, last = cluster.take()
    assert (last.leader_and_isr, last.stop_replicas) == ([], [])
    assert last.update_metadata is not None
    assert [s.replicas for s in last.update_metadata] == [(3, 4)]
    assert set(cluster.context.replica_status[KEY].values()) == {ReplicaStatus.ONLINE}


def test_a_successor_finds_a_deletion_and_a_reassignment() -> None:
    cluster = started(1, 2)
    cluster.run(procedures.reassign(cluster.context, {KEY: (1, 3)}))
    cluster.store.deletions.add("t")
    cluster.fail_over(2)
    cluster.deliver()
    assert "t" in cluster.store.topics
    cluster.alter(KEY, 1, 2, 3)
    cluster.deliver()
    assert "t" not in cluster.store.topics


def test_a_successor_begins_a_request_once() -> None:
    cluster = started(1, 2)
    cluster.store.reassignments = {KEY: (3, 4)}
    cluster.fail_over(2)
    assert cluster.state("t") == (1, 1, (1, 2), 1)


def test_the_node_of_a_topic_that_goes_keeps_what_was_led() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", (1, 2), (9,))
    cluster.delete("t")
    cluster.extend("t", (1,))
    assert cluster.store.topics["t"].partitions == {0: ReplicaAssignment((1, 2))}


@pytest.mark.parametrize("wrong", [{"x": (1,)}, {}])
def test_a_topic_that_somebody_removes_and_makes_again(wrong: dict[str, tuple[int, ...]]) -> None:
    cluster = started(1, 2)
    cluster.store.topics.clear()
    cluster.store.states.clear()
    cluster.run(procedures.topics_changed(cluster.context, {}, ["t", *wrong]))
    cluster.create("t", (2, 1))
    assert cluster.state("t") == (2, 0, (2, 1), 0)


def test_taking_over_what_was_begun() -> None:
    cluster = Cluster(3)
    cluster.store.topics["begun"] = topic_node("begun", (3,), (3,))
    cluster.store.states["begun", 1] = StoredState(3, 7, (3,), 1, 4)
    cluster.store.controller_epoch = 1
    cluster.fail_over(3)
    assert cluster.state("begun", 0) == (3, 0, (3,), 0)
    assert cluster.state("begun", 1) == (3, 7, (3,), 4)
    sent = [(s.key[1], s.leader_epoch, s.is_new) for r in cluster.take() for s in r.leader_and_isr]
    assert sent == [(1, 7, False), (0, 0, True)]
