"""Deletions and reassignments that wait for each other; found by the simulation of clusters."""

import contextlib

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import Effect, Send, WriteAssignment, WriteStates
from odradek.broker.core.partition_state import NO_LEADER
from odradek.protocol.errors import ErrorCode, Refused

from .model import Cluster, broker


def moving() -> Cluster:
    """A partition that is being moved from 1 to 2."""
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", (1,))
    cluster.deliver()
    cluster.run(procedures.reassign(cluster.context, {("t", 0): (2,)}))
    cluster.deliver()
    return cluster


def test_a_move_that_a_deletion_waits_for_gets_a_leader() -> None:
    cluster = moving()
    cluster.delete("t")
    assert "t" in cluster.context.deletions_halted
    cluster.set_state(("t", 0), leader=-1)
    cluster.fail_over()
    assert cluster.state("t")[0] == 1
    cluster.deliver()
    cluster.alter(("t", 0), 1, 2)
    cluster.deliver()
    assert not cluster.store.topics
    assert not cluster.store.deletions


def test_a_deletion_that_has_begun_waits_for_no_move() -> None:
    cluster = moving()
    cluster.delete("t")
    cluster.start(2)  # what waits is tried again
    assert "t" in cluster.context.deletions_begun
    cluster.delete("t")
    cluster.deliver()
    assert not cluster.store.topics


def test_a_deleted_topic_leaves_no_request_to_move_it() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", (1,))
    cluster.deliver()
    cluster.store.reassignments = {("t", 0): (2,), ("u", 0): (2,)}
    cluster.context.reassignment_requests = dict(cluster.store.reassignments)
    cluster.delete("t")
    cluster.deliver()
    assert cluster.store.reassignments == {("u", 0): (2,)}


def test_the_last_in_sync_replica_is_not_given_up() -> None:
    cluster = moving()
    cluster.set_state(("t", 0), leader=2, isr=(2,))
    cluster.run(procedures.isr_changes_noticed(cluster.context, ()))
    cluster.context.states["t", 0] = cluster.context.states["t", 0]._replace(leader=2, isr=(2,))
    result = cluster.run(procedures.reassign(cluster.context, {("t", 0): None}))["t", 0]
    assert isinstance(result, Refused)
    assert result.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.state("t")[2] == (2,)


def test_who_bounced_is_stopped_before_others_start() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    cluster.create("t", (1, 2))
    cluster.deliver()
    cluster.kill(2)
    cluster.delete("t")
    cluster.answers.clear()
    cluster.brokers = {1: broker(1, 5), 2: broker(2, 6)}
    cluster.take()
    cluster.changed()
    told = [request for request in cluster.take() if request.broker_id == 1]
    last = [bool(r.stop_replicas) for r in told if r.leader_and_isr or r.stop_replicas][-1]
    assert last, "what is told to delete its replica is not told to make it again"


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_leader_that_is_given_up_is_followed_by_another(is_alive: bool) -> None:
    cluster = Cluster(1, 2, 3)
    cluster.fail_over()
    cluster.create("t", (1,))
    cluster.run(procedures.reassign(cluster.context, {("t", 0): (2, 3)}))
    cluster.set_state(("t", 0), leader=2, isr=(1, 2))
    cluster.run(procedures.isr_changes_noticed(cluster.context, [("t", 0)]))
    if not is_alive:
        del cluster.context.brokers[1], cluster.brokers[1]
    cluster.run(procedures.reassign(cluster.context, {("t", 0): (3,)}))
    assert cluster.state("t")[0] == (1 if is_alive else NO_LEADER)
    if not is_alive:
        cluster.start(1)
        assert cluster.state("t")[0] == 1
    assert cluster.state("t")[2] == (1,)
    cluster.delete("t")
    cluster.deliver()
    cluster.alter(("t", 0), 1, 3)
    cluster.deliver()
    assert not cluster.store.topics


@pytest.mark.parametrize("target", [None, (3,), (4, 3)])
def test_an_older_leader_takes_in_who_was_given_up(target: tuple[int, ...] | None) -> None:
    """Its write comes behind the replica's end, and before it is told of that."""
    cluster = Cluster(1, 2, 3, 4)
    cluster.fail_over()
    cluster.create("t", (1, 3))
    cluster.run(procedures.reassign(cluster.context, {("t", 0): (1, 3, 2)}))

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteAssignment):
            cluster.store.before = write_isr

    def write_isr(effect: Effect) -> None:
        if isinstance(effect, WriteStates) and len(cluster.state("t")[2]) == 2:
            cluster.store.before = lambda effect: None
            cluster.set_state(("t", 0), isr=(1, 3, 2))

    cluster.store.before = interrupt
    result = cluster.run(procedures.reassign(cluster.context, {("t", 0): target}))["t", 0]
    assert result is None
    leader, _, isr, _ = cluster.state("t")
    assert (leader, set(isr)) == ((3, {3}) if target == (3,) else (1, {1, 3}))
    assert cluster.context.states["t", 0].isr == isr


@pytest.mark.parametrize("done", range(10))
def test_a_controller_dies_on_the_way_back(done: int) -> None:
    """Whatever of a cancellation it has done, its successor leaves nothing behind."""
    cluster = Cluster(1, 2, 3, 4)
    cluster.fail_over()
    cluster.create("t", (1, 2))
    cluster.run(procedures.reassign(cluster.context, {("t", 0): (1, 2, 3, 4)}))
    cluster.deliver()
    cluster.alter(("t", 0), 1, 2, 3)
    effects = iter(range(done))

    def die(effect: Effect) -> None:
        if not isinstance(effect, Send):
            next(effects)

    cluster.store.before = die
    with contextlib.suppress(RuntimeError, StopIteration):
        cluster.run(procedures.reassign(cluster.context, {("t", 0): None}))
    cluster.store.before = lambda effect: None
    cluster.fail_over(2)
    if cluster.context.reassigning:
        cluster.run(procedures.reassign(cluster.context, {("t", 0): None}))
    assert cluster.context.assignment(("t", 0)) == ((1, 2), (), ())
    assert cluster.store.topics["t"].partitions[0] == ((1, 2), (), ())
    leader, epoch, isr, _ = cluster.state("t")
    assert (leader, isr) == (1, (1, 2))
    assert epoch >= 3, "the leader has heard of it"
