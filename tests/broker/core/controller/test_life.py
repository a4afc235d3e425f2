"""Topics and brokers that come and go: what is written, and who is told what."""

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Endpoint
from odradek.broker.core.controller.effects import (
    Effect,
    ReadStates,
    Send,
    WriteStates,
)
from odradek.broker.core.controller.status import PartitionStatus
from odradek.broker.core.partition_state import NO_LEADER
from odradek.protocol.errors import ErrorCode

from .model import Cluster, topic_node


def brief(cluster: Cluster) -> list[tuple[object, ...]]:
    """What was sent, in short."""
    return [
        (
            request.broker_id,
            sorted(
                (*s.key, s.leader, s.leader_epoch, s.isr, s.is_new) for s in request.leader_and_isr
            ),
            None
            if request.update_metadata is None
            else sorted(
                (*s.key, s.leader, s.isr, s.offline_replicas) for s in request.update_metadata
            ),
            [(*s.key, s.leader_epoch, s.delete) for s in request.stop_replicas],
        )
        for request in cluster.take()
    ]


def started(*broker_ids: int) -> Cluster:
    cluster = Cluster(*broker_ids)
    cluster.fail_over()
    cluster.take()
    return cluster


def test_a_new_controller_first_tells_who_lives() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    first = cluster.effects[0]
    assert isinstance(first, Send)
    assert all(request.is_full for request in first.requests)
    assert brief(cluster) == [(1, [], [], []), (2, [], [], [])]


def test_a_new_topic() -> None:
    cluster = started(1, 2, 3)
    cluster.create("t", (2, 1))
    assert cluster.state("t") == (2, 0, (2, 1), 0)
    led = [("t", 0, 2, 0, (2, 1), True)]
    known = [("t", 0, 2, (2, 1), ())]
    assert brief(cluster) == [(1, led, known, []), (2, led, known, []), (3, [], known, [])]
    cluster.run(procedures.topics_changed(cluster.context, {"t": topic_node("t", (2, 1))}, ()))
    assert not cluster.take(), "it is known already"


def test_a_partition_without_a_live_replica_waits() -> None:
    cluster = started(1)
    cluster.create("t", (9,), (9, 1))
    assert ("t", 0) not in cluster.store.states
    assert cluster.state("t", 1) == (1, 0, (1,), 0)
    assert brief(cluster) == [(1, [("t", 1, 1, 0, (1,), True)], [("t", 1, 1, (1,), (9,))], [])]
    cluster.start(9)
    assert cluster.state("t", 0) == (9, 0, (9,), 0)
    assert cluster.context.partition_status["t", 0] is PartitionStatus.ONLINE


def test_partitions_are_added() -> None:
    cluster = started(1, 2)
    cluster.create("t", (1,))
    cluster.take()
    cluster.extend("t", (2,), (1, 2))
    assert cluster.state("t", 2) == (1, 0, (1, 2), 0)
    assert [[s.key for s in r.leader_and_isr] for r in cluster.take()] == [
        [("t", 2)],
        [("t", 1), ("t", 2)],
    ]
    cluster.run(procedures.topic_changed(cluster.context, "t", cluster.store.topics["t"]))
    cluster.run(procedures.topic_changed(cluster.context, "absent", topic_node("absent", (1,))))
    assert not cluster.take()


def test_a_state_that_is_there_already(caplog: pytest.LogCaptureFixture) -> None:
    cluster = started(1)
    cluster.create("t", (1,))
    left = cluster.store.states["t", 0]
    cluster.run(procedures.topics_changed(cluster.context, {}, ["t"]))
    assert not cluster.context.states
    cluster.take()
    cluster.create("t", (1,))
    assert cluster.store.states["t", 0] == left
    assert "partition has a state already" in caplog.text
    assert not cluster.take()


def test_a_broker_dies_and_returns() -> None:
    cluster = started(1, 2)
    cluster.create("t", (1, 2), (2, 1))
    cluster.take()
    cluster.kill(2)
    assert cluster.state("t", 0) == (1, 1, (1,), 1)
    assert cluster.state("t", 1) == (1, 1, (1,), 1)
    first, second = ("t", 0, 1, 1, (1,), False), ("t", 1, 1, 1, (1,), False)
    assert brief(cluster) == [
        (1, [second], [("t", 1, 1, (1,), (2,))], []),
        (1, [first, second], [("t", 0, 1, (1,), (2,)), ("t", 1, 1, (1,), (2,))], []),
    ]
    cluster.start(2)
    known = [("t", 0, 1, (1,), ()), ("t", 1, 1, (1,), ())]
    assert brief(cluster) == [
        (1, [], [], []),
        (2, [], known, []),
        (1, [], known, []),
        (2, [first, second], known, []),
    ]


def test_a_bounced_broker_dies_and_starts() -> None:
    cluster = started(1, 2)
    cluster.create("t", (2, 1))
    cluster.take()
    cluster.bounce(2)
    assert cluster.state("t") == (1, 1, (1,), 1)
    assert cluster.context.brokers[2].epoch == 2
    assert [r.broker_id for r in cluster.take() if r.leader_and_isr] == [1, 1, 2]
    cluster.changed()
    assert not cluster.take()


def test_the_last_in_sync_replica_stays_so() -> None:
    cluster = started(1, 2, 3)
    cluster.create("t", (1, 2))
    cluster.kill(1, 2)
    assert cluster.state("t") == (NO_LEADER, 2, (2,), 2), "each death is written"
    cluster.start(1)
    assert cluster.state("t")[0] == NO_LEADER, "1 is not in sync"
    cluster.start(2)
    assert cluster.state("t")[0] == 2


def test_an_unclean_election_only_where_it_is_allowed() -> None:
    cluster = started(1, 2)
    cluster.create("clean", (1, 2))
    cluster.create("unclean", (1, 2))
    for topic in ("clean", "unclean"):
        assert not isinstance(cluster.alter((topic, 0), 1), ErrorCode)
    cluster.store.unclean_topics.add("unclean")
    cluster.kill(1)
    assert cluster.state("unclean") == (2, 1, (2,), 2)
    assert cluster.store.states["unclean", 0].is_recovering
    assert cluster.state("clean") == (NO_LEADER, 1, (1,), 2)
    cluster.store.unclean_topics.add("clean")
    cluster.run(procedures.unclean_election_enabled(cluster.context, "clean"))
    assert cluster.state("clean")[0] == 2
    assert cluster.store.states["clean", 0].is_recovering


def test_other_endpoints_are_told() -> None:
    cluster = started(1, 2)
    moved = cluster.brokers[2]._replace(endpoints=(Endpoint("PLAINTEXT", "new", 1, "PLAINTEXT"),))
    cluster.brokers[2] = moved
    cluster.changed()
    assert brief(cluster) == [(1, [], [], []), (2, [], [], [])]
    assert cluster.context.brokers[2] == moved
    older = moved._replace(epoch=0, endpoints=())
    cluster.run(procedures.brokers_changed(cluster.context, {**cluster.brokers, 2: older}))
    assert not cluster.take()
    assert cluster.context.brokers[2] == moved


def test_the_death_of_a_broker_without_replicas_is_told() -> None:
    cluster = started(1, 2)
    cluster.kill(2)
    assert brief(cluster) == [(1, [], [], [])]


# Controllers that change.


def test_a_successor_goes_on() -> None:
    cluster = started(1, 2, 3)
    cluster.create("t", (1, 2), (2, 3), (9,))
    cluster.take()
    del cluster.brokers[1]
    cluster.fail_over(2)
    # Broker 1 leaves the ISR, which leaves no leader, and then there is an election.
    assert cluster.state("t", 0) == (2, 2, (2,), 2)
    assert cluster.state("t", 1) == (2, 0, (2, 3), 0)
    assert cluster.context.partition_status["t", 2] is PartitionStatus.NEW
    kinds = [(r.broker_id, [s.key[1] for s in r.leader_and_isr]) for r in cluster.take()]
    assert kinds == [(2, []), (3, []), (2, [0, 1]), (3, [1]), (2, [0]), (3, []), (2, [0]), (3, [])]


def test_what_another_writer_has_changed_is_read_again() -> None:
    cluster = started(1, 2, 3)
    cluster.create("t", (1, 2, 3))
    interruptions = [(1, 2), (1, 3)]

    def interrupt(effect: Effect) -> None:
        if isinstance(effect, WriteStates) and interruptions:
            cluster.set_state(("t", 0), isr=interruptions.pop())

    cluster.store.before = interrupt
    cluster.kill(1)
    assert cluster.state("t") == (2, 1, (2,), 3)
    assert not interruptions


@pytest.mark.parametrize("event", ["kill", "shut_down", "reassign"])
def test_what_a_later_controller_has_written_is_left_alone(event: str) -> None:
    """It may be nobody's: then all other partitions are still looked after, as in Kafka."""
    cluster = started(1, 2)
    cluster.create("t", (1, 2), (1, 2))
    cluster.set_state(("t", 0), controller_epoch=2)
    before = cluster.store.states["t", 0]
    if event == "kill":
        cluster.kill(1)
    elif event == "shut_down":
        cluster.run(procedures.shut_down(cluster.context, 1, 1))
    else:
        asked = {("t", 0): (2, 1), ("t", 1): (2,)}
        results = cluster.run(procedures.reassign(cluster.context, asked))
        refused = results["t", 0]
        assert refused is not None
        assert refused.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.store.states["t", 0] == before
    assert cluster.state("t", 1)[0] == 2


def test_a_state_that_has_vanished(caplog: pytest.LogCaptureFixture) -> None:
    cluster = started(1, 2)
    cluster.create("t", (1, 2))
    cluster.create("other", (2, 1))
    del cluster.store.states["t", 0]
    cluster.kill(1)
    assert "no state to elect a leader from" in caplog.text
    assert "no state to remove a replica from" in caplog.text
    assert cluster.state("other") == (2, 1, (2,), 1)


# Log directories that fail.


def test_a_log_dir_fails() -> None:
    cluster = started(1, 2)
    cluster.create("t", (1, 2), (1, 2))
    cluster.deliver()
    cluster.take()
    cluster.told[1].failed.add(("t", 0))
    cluster.run(procedures.log_dirs_failed(cluster.context, [1]))
    assert [(r.broker_id, len(r.leader_and_isr)) for r in cluster.take()] == [(1, 2), (2, 0)]
    cluster.deliver()
    assert cluster.state("t", 0) == (2, 1, (2,), 1)
    assert cluster.state("t", 1) == (1, 0, (1, 2), 0)
    assert cluster.told[2].metadata["t", 0].offline_replicas == (1,)
    cluster.told[1].failed.clear()
    cluster.bounce(1)
    cluster.deliver()
    assert not cluster.told[2].metadata["t", 0].offline_replicas
    assert not cluster.context.offline_replicas[1]


def test_the_only_log_dir_of_a_partition_fails_and_returns() -> None:
    cluster = started(1)
    cluster.create("t", (1,), (1,))
    cluster.deliver()
    cluster.told[1].failed.add(("t", 0))
    cluster.run(procedures.log_dirs_failed(cluster.context, [1]))
    cluster.deliver()
    assert cluster.state("t", 0) == (NO_LEADER, 1, (1,), 1)
    assert cluster.told[1].metadata["t", 0].leader == NO_LEADER
    assert cluster.told[1].metadata["t", 0].offline_replicas == (1,)
    # A successor hears of it by LeaderAndIsr, too.
    cluster.told[1].replicas.clear()
    cluster.fail_over()
    cluster.deliver()
    assert cluster.state("t", 0)[0] == NO_LEADER
    answer = {("t", 0): ErrorCode.NONE}
    cluster.run(procedures.leader_and_isr_answered(cluster.context, 1, answer))
    assert not cluster.context.offline_replicas[1]
    assert cluster.state("t", 0)[0] == 1, "a disk may have got room again"
    cluster.run(procedures.leader_and_isr_answered(cluster.context, 7, answer))
    assert 7 not in cluster.context.offline_replicas


def test_a_replica_that_was_well_before_is_told_what_it_missed() -> None:
    """Its answer to an earlier role comes late; it would lead on beside the other one."""
    cluster = started(1, 2)
    cluster.create("t", (1, 2))
    cluster.deliver()
    well = {("t", 0): ErrorCode.NONE}
    failed = {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
    cluster.run(procedures.leader_and_isr_answered(cluster.context, 1, failed))
    cluster.deliver()
    assert cluster.state("t")[0] == 2
    cluster.told[1].replicas.clear()
    cluster.run(procedures.leader_and_isr_answered(cluster.context, 1, well))
    cluster.deliver()
    assert cluster.told[1].replicas["t", 0].leader == 2
    known = {("t", 0): ErrorCode.STALE_CONTROLLER_EPOCH}
    for answer in (failed, known):  # it says so if the first answer was lost
        cluster.run(procedures.leader_and_isr_answered(cluster.context, 1, answer))
    assert not cluster.context.offline_replicas[1]


def test_reads_are_never_empty() -> None:
    cluster = started(1, 2)
    cluster.create("t", (1,))
    cluster.kill(2)
    assert not [e for e in cluster.effects if isinstance(e, ReadStates) and not e.partitions]
