"""Partitions that are moved to other replicas: what is written and told, step by step."""

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import Effect, ReplicaAssignment, WriteStates
from odradek.protocol.errors import ErrorCode

from .model import Cluster

KEY = ("t", 0)


def started(*replicas: int, live: tuple[int, ...] = (1, 2, 3, 4, 5, 6)) -> Cluster:
    cluster = Cluster(*live)
    cluster.fail_over()
    cluster.create("t", replicas)
    cluster.deliver()
    cluster.take()
    cluster.store.log.clear()
    return cluster


def move(cluster: Cluster, *target: int) -> ErrorCode:
    results = cluster.run(procedures.reassign(cluster.context, {KEY: target}))
    refused = results[KEY]
    return ErrorCode.NONE if refused is None else refused.code


def cancel(cluster: Cluster) -> ErrorCode:
    refused = cluster.run(procedures.reassign(cluster.context, {KEY: None}))[KEY]
    return ErrorCode.NONE if refused is None else refused.code


def assignment(cluster: Cluster) -> ReplicaAssignment:
    """As written and as known, which is the same."""
    written = cluster.store.topics["t"].partitions[0]
    assert cluster.context.assignment(KEY) == written
    state = cluster.context.states[KEY]
    assert written == (state.replicas, state.adding_replicas, state.removing_replicas)
    return written


def told(cluster: Cluster) -> list[tuple[int, str, object]]:
    """What was sent, one tuple a request; metadata is left out."""
    said: list[tuple[int, str, object]] = []
    for request in cluster.take():
        for state in request.leader_and_isr:
            what = (state.leader, state.leader_epoch, state.isr, state.is_new)
            said.append((request.broker_id, "lead", what))
        for stopped in request.stop_replicas:
            what_else = (stopped.leader_epoch, stopped.delete)
            said.append((request.broker_id, "stop", what_else))
    return said


def test_all_replicas_are_moved() -> None:
    cluster = started(1, 2, 3)
    assert move(cluster, 4, 5, 6) == ErrorCode.NONE
    assert assignment(cluster) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert cluster.state("t") == (1, 1, (1, 2, 3), 1)
    isr = (1, 2, 3)
    olds = [(n, "lead", (1, 1, isr, False)) for n in (1, 2, 3)]
    news = [(n, "lead", (1, 1, isr, True)) for n in (4, 5, 6)]
    assert told(cluster) == [*olds, *news, *news]
    cluster.deliver()

    cluster.alter(KEY, 1, 2, 3, 4)
    assert cluster.state("t") == (1, 1, (1, 2, 3, 4), 2)
    assert told(cluster) == []

    grown = (1, 2, 3, 4, 5, 6)
    cluster.alter(KEY, *grown)
    # One write each: the ISR grows, the leader moves, the old replicas go.
    assert cluster.state("t") == (4, 5, (4, 5, 6), 7)
    assert assignment(cluster) == ((4, 5, 6), (), ())
    assert cluster.store.topic_versions["t"] == 2
    assert told(cluster) == [
        *[(n, "lead", (4, 2, grown, False)) for n in (4, 5, 6)],
        *[(n, "stop", (1 + n, False)) for n in (1, 2, 3)],
        *[(n, "lead", (4, 5, (4, 5, 6), False)) for n in (4, 5, 6)],
        *[(n, "stop", (5, True)) for n in (1, 2, 3)],
    ]
    assert not cluster.context.reassigning
    cluster.deliver()
    assert {n for n in cluster.brokers if KEY in cluster.told[n].replicas} == {4, 5, 6}
    assert cluster.told[1].metadata[KEY].replicas == (4, 5, 6)


def test_one_replica_is_moved_and_the_leader_stays() -> None:
    cluster = started(1, 2)
    assert move(cluster, 1, 3) == ErrorCode.NONE
    assert assignment(cluster) == ((1, 3, 2), (3,), (2,))
    cluster.deliver()
    cluster.alter(KEY, 1, 2, 3)
    # AlterPartition, the leader is told of its replicas, broker 2 goes.
    assert cluster.state("t") == (1, 3, (1, 3), 4)
    assert assignment(cluster) == ((1, 3), (), ())
    cluster.deliver()
    assert {n for n in cluster.brokers if KEY in cluster.told[n].replicas} == {1, 3}


def test_another_order_takes_one_step() -> None:
    cluster = started(1, 2)
    assert move(cluster, 2, 1) == ErrorCode.NONE
    assert assignment(cluster) == ((2, 1), (), ())
    assert cluster.state("t") == (1, 1, (1, 2), 1)
    assert cluster.store.topic_versions["t"] == 2
    assert move(cluster, 2, 1) == ErrorCode.NONE
    assert cluster.store.topic_versions["t"] == 3
    assert cluster.state("t") == (1, 2, (1, 2), 2)
    assert not cluster.context.reassigning


def test_replicas_are_removed() -> None:
    cluster = started(1, 2, 3)
    assert move(cluster, 2) == ErrorCode.NONE
    assert assignment(cluster) == ((2,), (), ())
    assert cluster.state("t") == (2, 3, (2,), 3)
    cluster.deliver()
    assert {n for n in cluster.brokers if KEY in cluster.told[n].replicas} == {2}


def test_a_reassignment_is_cancelled() -> None:
    cluster = started(1, 2)
    assert cancel(cluster) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    move(cluster, 3, 4)
    cluster.deliver()
    cluster.alter(KEY, 1, 2, 3)
    cluster.take()
    assert cancel(cluster) == ErrorCode.NONE
    assert assignment(cluster) == ((1, 2), (), ())
    leader, _, isr, _ = cluster.state("t")
    assert (leader, isr) == (1, (1, 2))
    cluster.deliver()
    assert {n for n in cluster.brokers if KEY in cluster.told[n].replicas} == {1, 2}
    assert not cluster.context.reassigning
    assert cancel(cluster) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_reassignment_replaces_another() -> None:
    cluster = started(1, 2)
    move(cluster, 3, 4)
    cluster.deliver()
    cluster.take()
    assert move(cluster, 4, 5) == ErrorCode.NONE
    assert assignment(cluster) == ((4, 5, 1, 2), (4, 5), (1, 2))
    stopped = [entry for entry in told(cluster) if entry[1] == "stop"]
    assert stopped == [(3, "stop", (1, False)), (3, "stop", (1, True))]
    cluster.deliver()
    cluster.alter(KEY, 1, 2, 4, 5)
    assert assignment(cluster) == ((4, 5), (), ())
    cluster.deliver()
    assert {n for n in cluster.brokers if KEY in cluster.told[n].replicas} == {4, 5}


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_can_not_be(target: tuple[int, ...], code: ErrorCode) -> None:
    cluster = started(1, 2)
    assert move(cluster, *target) == code
    assert assignment(cluster) == ((1, 2), (), ())
    assert not cluster.store.log


def test_what_is_not_there_and_what_was_never_led() -> None:
    cluster = started(1, 2)
    cluster.create("waiting", (9,))
    asked = {("absent", 0): (1,), ("t", 7): (1,), ("t", 8): None, ("waiting", 0): (1,)}
    results = cluster.run(procedures.reassign(cluster.context, asked))
    assert {key: refused.code for key, refused in results.items() if refused} == {
        ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 8): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ("waiting", 0): ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    assert cluster.store.topics["waiting"].partitions[0] == ((9,), (), ())
    assert not cluster.context.reassigning
    cluster.start(9)
    assert cluster.state("waiting") == (9, 0, (9,), 0)
    cluster.delete("waiting")
    cluster.deliver()
    assert "waiting" not in cluster.store.topics


def test_a_dead_broker_may_stay_a_replica() -> None:
    cluster = started(1, 2, live=(1, 2, 3))
    cluster.kill(2)
    assert move(cluster, 2, 3) == ErrorCode.NONE
    assert assignment(cluster) == ((2, 3, 1), (3,), (1,))
    cluster.deliver()
    cluster.alter(KEY, 1, 3)
    assert cluster.context.reassigning
    cluster.start(2)
    cluster.deliver()
    cluster.alter(KEY, 1, 3, 2)
    assert assignment(cluster) == ((2, 3), (), ())
    assert cluster.state("t")[0] == 2


def test_a_target_dies_and_returns() -> None:
    cluster = started(1, 2)
    move(cluster, 3, 4)
    cluster.kill(4)
    cluster.start(4)
    cluster.deliver()
    cluster.alter(KEY, 1, 2, 3, 4)
    assert assignment(cluster) == ((3, 4), (), ())


def test_a_successor_goes_on() -> None:
    cluster = started(1, 2)
    move(cluster, 3, 4)
    cluster.set_state(KEY, isr=(1, 2, 3, 4))
    cluster.fail_over(2)
    assert assignment(cluster) == ((3, 4), (), ())
    assert cluster.state("t")[0] == 3
    move(cluster, 5)
    cluster.fail_over(3)
    assert cluster.context.reassigning == {KEY: None}
    cluster.deliver()
    cluster.alter(KEY, 3, 4, 5)
    assert assignment(cluster) == ((5,), (), ())


def test_conflicts_are_tried_again() -> None:
    cluster = started(1, 2)
    interruptions = [(2, 1), (1, 2)]

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteStates) and interruptions:
            cluster.set_state(KEY, isr=interruptions.pop())

    cluster.store.before = interrupt
    move(cluster, 1, 2, 3)
    assert cluster.state("t") == (1, 1, (2, 1), 3)


# /admin/reassign_partitions


def request(cluster: Cluster, requests: dict[tuple[str, int], tuple[int, ...]]) -> None:
    cluster.store.reassignments = dict(requests)
    cluster.run(procedures.reassignments_requested(cluster.context, requests))


def test_requests_leave_the_node_when_they_are_done() -> None:
    cluster = started(1, 2)
    cluster.create("u", (1,))
    request(cluster, {KEY: (3, 4), ("u", 0): (2,), ("absent", 0): (1,)})
    assert cluster.store.reassignments == {KEY: (3, 4), ("u", 0): (2,)}
    before = cluster.state("t")
    request(cluster, dict(cluster.store.reassignments))
    assert cluster.state("t") == before, "it is read again when one of them is done"
    cluster.deliver()
    cluster.alter(("u", 0), 1, 2)
    assert cluster.store.reassignments == {KEY: (3, 4)}
    cluster.alter(KEY, 1, 2, 3, 4)
    assert cluster.store.reassignments == {}
    assert assignment(cluster) == ((3, 4), (), ())


def test_the_api_overrules_a_request() -> None:
    cluster = started(1, 2)
    cluster.create("u", (1,))
    request(cluster, {KEY: (3, 4), ("u", 0): (2,)})
    assert move(cluster, 5, 6) == ErrorCode.NONE
    assert cluster.store.reassignments == {("u", 0): (2,)}
    assert assignment(cluster).target == (5, 6)


def test_a_successor_finds_requests() -> None:
    cluster = started(1, 2)
    move(cluster, 5, 6)
    cluster.store.reassignments = {KEY: (3, 4), ("absent", 0): (1,)}
    cluster.fail_over(2)
    assert cluster.store.reassignments == {KEY: (3, 4)}
    assert assignment(cluster) == ((3, 4, 1, 2), (3, 4), (1, 2))


def test_an_older_leader_says_that_its_isr_grew() -> None:
    cluster = started(1, 2)
    move(cluster, 3)
    cluster.deliver()
    cluster.take()
    cluster.set_state(KEY, isr=(1, 2, 3))
    cluster.run(procedures.isr_changes_noticed(cluster.context, [KEY, ("absent", 0)]))
    assert assignment(cluster) == ((3,), (), ())
    cluster.run(procedures.isr_changes_noticed(cluster.context, []))


def test_the_targets_fall_behind_at_the_last_moment() -> None:
    cluster = started(2, 1)

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteStates) and cluster.state("t")[2] == (2, 1):
            cluster.set_state(KEY, isr=(2,))

    cluster.store.before = interrupt
    assert move(cluster, 1) == ErrorCode.NONE
    assert assignment(cluster) == ((1, 2), (), (2,))
    assert cluster.state("t") == (2, 0, (2,), 1)
    assert not told(cluster), "nobody loses what only broker 2 has"
    cluster.run(procedures.isr_changes_noticed(cluster.context, [KEY]))
    cluster.store.before = lambda effect: None
    cluster.alter(KEY, 2, 1)
    assert assignment(cluster) == ((1,), (), ())
    assert cluster.state("t")[0] == 1


class Compared(int):
    """A replica that counts how often it is compared with another."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


def test_many_replicas_are_not_compared_with_each_other() -> None:
    many = [Compared(replica) for replica in range(1000)]
    moving = ReplicaAssignment((1, 2)).reassign_to(many).reassign_to(reversed(many))
    assert moving.target == tuple(reversed(many))
    assert Compared.comparisons < 20_000
