"""Topics that are deleted: at once, later, and not at all."""

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import ReplicaAssignment
from odradek.broker.core.controller.status import ReplicaStatus
from odradek.broker.core.partition_state import LEADER_IS_DELETED
from odradek.protocol.errors import ErrorCode

from .model import Cluster, topic_id


def started(*broker_ids: int, delete_topic_enable: bool = True) -> Cluster:
    cluster = Cluster(*broker_ids, delete_topic_enable=delete_topic_enable)
    cluster.fail_over()
    cluster.create("t", (1, 2), (2, 1))
    cluster.create("other", (1,))
    cluster.deliver()
    cluster.take()
    cluster.store.log.clear()
    return cluster


def is_gone(cluster: Cluster, topic: str = "t") -> bool:
    """Whether nothing of a topic is left, neither written nor known."""
    context = cluster.context
    left = topic in cluster.store.topics or topic in cluster.store.deletions
    assert left == (topic in context.assignments)
    if left:
        return False
    assert topic not in context.topic_ids and topic_id(topic) not in context.topic_names
    for known in (context.states, context.partition_status, context.replica_status):
        assert not [key for key in known if key[0] == topic]
    assert topic not in {*context.topics_to_delete, *context.deletions_begun}
    assert topic not in context.deletions_halted
    return True


def test_a_topic_is_deleted() -> None:
    cluster = started(1, 2)
    cluster.delete("t")
    first, *rest = cluster.take()
    assert first.update_metadata is not None
    assert [(s.leader, s.leader_epoch, s.partition_epoch) for s in first.update_metadata] == [
        (LEADER_IS_DELETED, 0, 0)
    ] * 2
    assert not first.leader_and_isr
    stops = [[(s.leader_epoch, s.delete) for s in r.stop_replicas] for r in rest[1:]]
    assert stops == [[(-2, False)] * 2] * 2 + [[(-2, True)] * 2] * 2
    assert not any(r.leader_and_isr for r in rest)
    assert not is_gone(cluster)
    cluster.deliver()
    assert is_gone(cluster)
    assert [what for kind, what in cluster.store.log if kind == "delete"] == ["t"]
    assert not [key for told in cluster.told.values() for key in told.metadata if key[0] == "t"]
    assert ("other", 0) in cluster.store.states
    cluster.create("t", (1, 2))
    assert cluster.state("t") == (1, 0, (1, 2), 0)


def test_answers_of_one_broker_are_not_enough() -> None:
    cluster = started(1, 2)
    cluster.delete("t")
    done = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
    cluster.run(procedures.stop_replica_answered(cluster.context, 1, done))
    assert not is_gone(cluster)
    cluster.run(procedures.stop_replica_answered(cluster.context, 1, done))
    assert not is_gone(cluster)
    cluster.run(procedures.stop_replica_answered(cluster.context, 2, done))
    assert is_gone(cluster)
    cluster.run(procedures.stop_replica_answered(cluster.context, 2, done))


def test_a_topic_that_is_not_there() -> None:
    cluster = started(1, 2)
    cluster.delete("absent", "t")
    assert cluster.store.deletions == {"t"}
    assert cluster.store.log[0] == ("drop", ("absent",))
    cluster.deliver()
    cluster.delete("absent")
    assert not cluster.store.deletions


def test_deletion_may_be_switched_off() -> None:
    cluster = started(1, 2, delete_topic_enable=False)
    cluster.delete("t")
    assert not cluster.store.deletions
    assert not cluster.take()
    cluster.store.deletions.add("t")
    cluster.fail_over()
    cluster.deliver()
    assert not cluster.store.deletions
    assert ("t", 0) in cluster.store.states


def test_a_deletion_waits_for_a_broker() -> None:
    cluster = started(1, 2)
    cluster.kill(2)
    cluster.deliver()
    cluster.delete("t")
    cluster.deliver()
    assert not is_gone(cluster)
    assert cluster.context.deletions_halted == {"t"}
    assert {r.broker_id for r in cluster.take()} == {1}
    cluster.start(2)
    cluster.deliver()
    assert is_gone(cluster)


def test_a_broker_dies_during_a_deletion() -> None:
    cluster = started(1, 2)
    cluster.delete("t")
    cluster.answers.clear()
    cluster.kill(2)
    done = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
    cluster.run(procedures.stop_replica_answered(cluster.context, 1, done))
    assert not is_gone(cluster)
    cluster.take()
    cluster.start(2)
    deleting = [(r.broker_id, s.key) for r in cluster.take() for s in r.stop_replicas if s.delete]
    assert deleting == [(2, ("t", 0)), (2, ("t", 1))], "broker 1 has done it already"
    cluster.deliver()
    assert is_gone(cluster)


def test_a_broker_dies_that_has_deleted_its_replica(caplog: pytest.LogCaptureFixture) -> None:
    """It is not said to be in the way, nor that anything is wrong; Kafka's controller says so."""
    cluster = started(1, 2)
    cluster.delete("t")
    cluster.answers.clear()
    done = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
    cluster.run(procedures.stop_replica_answered(cluster.context, 2, done))
    cluster.kill(2)
    cluster.run(procedures.stop_replica_answered(cluster.context, 1, done))
    assert is_gone(cluster)
    assert "refused" not in caplog.text


def test_a_broker_dies_before_its_replica_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """The deletion waits for something else, and then for it as well."""
    cluster = started(1, 2, 3)
    cluster.run(procedures.reassign(cluster.context, {("t", 0): (1, 3)}))
    cluster.delete("t")
    cluster.kill(2)
    cluster.alter(("t", 0), 1, 2, 3)
    cluster.deliver()
    assert not is_gone(cluster)
    cluster.start(2)
    cluster.deliver()
    assert is_gone(cluster)
    assert "refused" not in caplog.text


def test_a_replica_can_not_be_deleted() -> None:
    cluster = started(1, 2)
    cluster.told[2].failed.add(("t", 1))
    cluster.delete("t")
    cluster.deliver()
    assert not is_gone(cluster)
    assert cluster.context.deletions_halted == {"t"}
    assert cluster.context.replica_status["t", 1][2] is ReplicaStatus.OFFLINE, "to be tried again"
    cluster.told[2].failed.clear()
    cluster.bounce(2)
    cluster.deliver()
    assert is_gone(cluster)


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_successor_goes_on(is_alive: bool) -> None:
    cluster = started(1, 2)
    cluster.store.deletions.update({"t", "gone"})
    if not is_alive:
        del cluster.brokers[2]
    cluster.fail_over()
    cluster.deliver()
    assert is_gone(cluster, "gone")
    assert is_gone(cluster) == is_alive
    if not is_alive:
        cluster.start(2)
        cluster.deliver()
        assert is_gone(cluster)


def test_no_partitions_are_added_to_a_topic_that_goes() -> None:
    cluster = started(1, 2)
    cluster.kill(2)
    cluster.delete("t")
    cluster.extend("t", (1,))
    kept = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))}
    assert cluster.store.topics["t"].partitions == kept
    cluster.run(procedures.topic_changed(cluster.context, "t", cluster.store.topics["t"]))
    assert [kind for kind, _ in cluster.store.log].count("assignment") == 1
    assert ("t", 2) not in cluster.store.states


def test_what_goes_is_not_elected_moved_or_shut_down() -> None:
    cluster = started(1, 2, 3)
    cluster.kill(3)
    cluster.create("u", (1, 3))
    cluster.delete("u")
    cluster.take()
    moved = cluster.run(procedures.reassign(cluster.context, {("u", 0): (2,)}))["u", 0]
    assert moved is not None and moved.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.store.log.clear()
    cluster.run(procedures.rebalance(cluster.context, 0))
    cluster.run(procedures.preferred_elections_requested(cluster.context, [("u", 0)]))
    assert not cluster.store.log
    assert cluster.run(procedures.shut_down(cluster.context, 1, 1)) == []
    assert not [what for _, what in cluster.store.log if "u" in str(what)]


def test_a_reassignment_holds_a_deletion_up() -> None:
    cluster = started(1, 2, 3)
    assert cluster.run(procedures.reassign(cluster.context, {("t", 0): (1, 3)})) == {("t", 0): None}
    cluster.delete("t")
    cluster.deliver()
    assert not is_gone(cluster)
    cluster.alter(("t", 0), 1, 2, 3)
    cluster.deliver()
    assert is_gone(cluster)


def test_a_log_dir_event_disturbs_no_deletion() -> None:
    cluster = started(1, 2)
    cluster.delete("t")
    cluster.run(procedures.log_dirs_failed(cluster.context, [1]))
    cluster.deliver()
    assert is_gone(cluster)


def test_a_deletion_that_failed_goes_on_once_its_disk_has_room() -> None:
    cluster = started(1, 2)
    cluster.delete("t")
    full = {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    cluster.run(procedures.stop_replica_answered(cluster.context, 1, full))
    assert cluster.context.deletions_halted == {"t"}
    cluster.take()
    done = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
    for broker_id in (1, 2):
        cluster.run(procedures.stop_replica_answered(cluster.context, broker_id, done))
    assert not is_gone(cluster)
    cluster.run(procedures.log_dirs_failed(cluster.context, [1]))
    cluster.deliver()
    assert is_gone(cluster)


def test_who_was_away_hears_of_a_deletion_that_goes_on() -> None:
    cluster = started(1, 2, 3)
    cluster.brokers.pop(3)
    cluster.changed()
    cluster.delete("t")
    cluster.take()
    cluster.start(3)
    sent = [request for request in cluster.take() if request.broker_id == 3]
    assert [request.is_full for request in sent if request.update_metadata] == [True]
    told = [request.update_metadata or () for request in sent]
    assert {(s.topic, s.partition): s.leader for states in told for s in states} == {
        ("t", 0): LEADER_IS_DELETED,
        ("t", 1): LEADER_IS_DELETED,
        ("other", 0): 1,
    }


def test_who_had_no_session_hears_of_a_deletion_that_is_done() -> None:
    cluster = started(1, 2, 3)
    cluster.deliver()
    cluster.brokers.pop(3)
    cluster.changed()
    cluster.delete("t")
    cluster.deliver()
    assert is_gone(cluster)
    assert ("t", 0) in cluster.told[3].metadata
    cluster.start(3)
    cluster.deliver()
    assert list(cluster.told[3].metadata) == [("other", 0)]


def full_updates(cluster: Cluster) -> list[bool]:
    """Whether what is sent to a broker that comes is full."""
    cluster.take()
    cluster.start(3)
    return [r.is_full for r in cluster.take() if r.broker_id == 3 and r.update_metadata]


def test_an_update_is_not_full_while_a_topic_cannot_be_named() -> None:
    cluster = started(1, 2)
    assert full_updates(cluster)[0]
    cluster.context.is_complete = False
    assert not any(full_updates(cluster))
    cluster.context.is_complete = True
    cluster.create("dead", (9,))  # it never had a leader, or its states are lost
    assert not any(full_updates(cluster))


def test_a_new_controller_tells_of_what_the_one_before_has_deleted() -> None:
    cluster = started(1, 2, 3)
    cluster.deliver()
    known = dict(cluster.told[3].metadata)
    cluster.delete("t")
    cluster.deliver()
    cluster.told[3].metadata = known  # it did not hear of it
    cluster.fail_over()
    cluster.deliver()
    assert list(cluster.told[3].metadata) == [("other", 0)]


def test_who_has_no_replica_does_not_hold_a_deletion_up() -> None:
    cluster = started(1, 2, 3)
    cluster.delete("t")
    late = {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    cluster.run(procedures.stop_replica_answered(cluster.context, 3, late))
    assert not cluster.context.deletions_halted
    cluster.deliver()
    assert is_gone(cluster)


def test_a_late_answer_about_a_role_does_not_halt_a_deletion() -> None:
    cluster = started(1, 2)
    cluster.delete("t")
    late = {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    cluster.run(procedures.leader_and_isr_answered(cluster.context, 1, late))
    assert not cluster.context.deletions_halted
    cluster.deliver()
    assert is_gone(cluster)
