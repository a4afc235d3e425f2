"""Partitions whose last in-sync replica declines to lead: who leads in the end."""

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.last_replicas import LogEnd, LogEnds, comparable, waiting
from odradek.broker.core.controller.status import PartitionStatus
from odradek.broker.core.elections import ElectionType
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.protocol.errors import ErrorCode, Refused

from .model import Cluster

T: TopicPartition = ("t", 0)
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def declining(*, all_back: bool = True, partition_count: int = 1) -> Cluster:
    """Of three replicas the last in sync is back, suspect, and declines; 2 is out of sync."""
    cluster = Cluster(1, 2, 3)
    cluster.fail_over(2)
    cluster.create("t", *[(1, 2, 3)] * partition_count)
    cluster.deliver()
    cluster.kill(3)
    keys = set(cluster.context.partitions())
    for key in keys:
        cluster.alter(key, 1)
    cluster.kill(1)
    cluster.deliver()
    assert cluster.state("t")[0] == -1
    cluster.told[1].failed |= keys
    cluster.start(1)
    cluster.deliver()
    cluster.told[1].failed -= keys
    if all_back:
        cluster.start(3)
        cluster.deliver()
    cluster.take()
    assert (cluster.state("t")[0], cluster.state("t")[2]) == (-1, (1,))
    return cluster


def ends(cluster: Cluster, **by_broker: tuple[int, int]) -> LogEnds:
    """Of brokers b1, b2, b3, who tell it now; the first is suspect."""
    return {T: {int(b[1:]): told(cluster, int(b[1:]), *end) for b, end in by_broker.items()}}


def told(cluster: Cluster, broker_id: int, last_epoch: int, log_end_offset: int) -> LogEnd:
    broker = cluster.brokers.get(broker_id)
    epoch = -1 if broker is None else broker.epoch
    return LogEnd(last_epoch, log_end_offset, epoch, is_suspect=broker_id == 1)


def elect(cluster: Cluster, found: LogEnds) -> int:
    cluster.run(procedures.elect_greatest(cluster.context, found))
    cluster.deliver()
    return cluster.state("t")[0]


def test_it_waits_and_its_broker_is_to_be_asked() -> None:
    cluster = declining(all_back=False)
    assert waiting(cluster.context) == {T: (1, 2)}
    assert comparable(cluster.context) == {}
    cluster.start(3)
    cluster.deliver()
    assert comparable(cluster.context) == {T: (1, 2, 3)}


@pytest.mark.parametrize(
    ("b1", "b2", "b3", "leader"),
    [
        ((4, 30), (4, 20), (3, 10), 1),
        ((4, 15), (4, 20), (3, 10), 2),
        ((4, 15), (4, 20), (5, 10), 3),  # a later epoch has decided what counts before it
        ((4, 20), (4, 20), (4, 20), 1),  # in sync
        ((-1, 0), (-1, 0), (0, 0), 3),
    ],
)
def test_the_greatest_leads_once_all_are_there(
    b1: tuple[int, int], b2: tuple[int, int], b3: tuple[int, int], leader: int
) -> None:
    cluster = declining()
    before = cluster.state("t")
    assert elect(cluster, ends(cluster, b1=b1, b2=b2, b3=b3)) == leader
    assert cluster.state("t") == (leader, before[1] + 1, (leader,), before[3] + 1)
    assert cluster.store.states[T].is_recovering
    assert cluster.context.partition_status[T] is PartitionStatus.ONLINE
    sent = [request for request in cluster.take() if request.leader_and_isr]
    assert {request.broker_id for request in sent} == {1, 2, 3}
    assert all(request.leader_and_isr[0].is_loss_accepted for request in sent)
    assert not cluster.context.states[T].is_loss_accepted, "that was said once"
    assert waiting(cluster.context) == {}
    assert elect(cluster, ends(cluster, b1=b1, b2=b2, b3=b3)) == leader, "it has one by now"


def test_nobody_leads_before_all_have_told() -> None:
    cluster = declining()
    assert elect(cluster, ends(cluster, b1=(4, 30), b2=(4, 20))) == -1
    assert elect(cluster, {}) == -1
    cluster = declining(all_back=False)
    assert elect(cluster, ends(cluster, b1=(4, 30), b2=(4, 20), b3=(3, 10))) == -1
    assert cluster.take() == []


def test_what_was_told_in_an_earlier_life_counts_for_nothing() -> None:
    """The broker may have lost its records with its machine since."""
    cluster = declining()
    earlier = ends(cluster, b1=(4, 15), b2=(4, 20), b3=(3, 10))
    cluster.told[1].failed.add(T)
    cluster.bounce(2)
    cluster.deliver()
    cluster.take()
    assert elect(cluster, earlier) == -1
    cluster.told[1].failed.clear()
    assert cluster.take() == []
    assert elect(cluster, ends(cluster, b1=(4, 15), b2=(3, 5), b3=(3, 10))) == 1


def test_a_disk_that_has_failed_is_no_suspect_replica() -> None:
    cluster = declining()
    found = {T: {b: told(cluster, b, 4, 20)._replace(is_suspect=False) for b in (1, 2, 3)}}
    assert elect(cluster, found) == -1


def test_a_topic_that_allows_unclean_elections_waits_for_nobody() -> None:
    cluster = declining(all_back=False)
    cluster.store.unclean_topics.add("t")
    assert elect(cluster, ends(cluster, b1=(4, 30), b2=(4, 20))) == 1


def accept(cluster: Cluster, found: LogEnds) -> PartitionState | Refused:
    procedure = procedures.elect(cluster.context, [T], ElectionType.UNCLEAN, found)
    return cluster.run(procedure)[T]


def test_the_loss_is_accepted() -> None:
    cluster = declining(all_back=False)
    accepted = accept(cluster, ends(cluster, b1=(4, 15), b2=(4, 20)))
    assert isinstance(accepted, PartitionState)
    assert cluster.state("t")[0] == accepted.leader == 2
    again = accept(cluster, ends(cluster, b1=(4, 15), b2=(4, 20)))
    assert isinstance(again, Refused)
    assert again.code == ErrorCode.ELECTION_NOT_NEEDED


def test_the_loss_is_accepted_with_only_the_suspect_one_there() -> None:
    cluster = declining(all_back=False)
    cluster.fail_over(1)
    cluster.told[1].failed.add(T)
    cluster.deliver()
    cluster.kill(2)
    assert waiting(cluster.context) == {T: (1,)}
    accepted = accept(cluster, ends(cluster, b1=(4, 15)))
    assert isinstance(accepted, PartitionState)
    assert accepted.leader == 1


def test_one_that_has_declined_for_others_leads_once_they_are_gone() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.fail_over(1)
    cluster.create("t", (1, 2))
    cluster.deliver()
    cluster.told[1].failed.add(T)
    cluster.run(procedures.leader_and_isr_answered(cluster.context, 1, {T: STORAGE_ERROR}))
    cluster.deliver()
    assert cluster.state("t")[0] == 2
    assert waiting(cluster.context) == {}
    cluster.kill(2)
    cluster.deliver()
    assert (cluster.state("t")[0], cluster.state("t")[2]) == (-1, (2,))
    assert waiting(cluster.context) == {T: (1,)}
    accepted = accept(cluster, ends(cluster, b1=(4, 15)))
    assert isinstance(accepted, PartitionState)
    assert accepted.leader == 1


def test_where_nobody_can_tell_any_live_replica_leads() -> None:
    cluster = declining(all_back=False)
    accepted = accept(cluster, {})
    assert isinstance(accepted, PartitionState)
    assert accepted.leader == 2


def test_somebody_else_has_changed_the_state() -> None:
    cluster = declining()
    version = cluster.store.states[T].partition_epoch

    def meddle(effect: object) -> None:
        if type(effect).__name__ == "WriteStates" and version == cluster.store.states[T][4]:
            cluster.set_state(T, leader=3)

    cluster.store.before = meddle
    assert elect(cluster, ends(cluster, b1=(4, 30), b2=(4, 20), b3=(4, 10))) == 3
    assert cluster.take() == []
    assert elect(cluster, ends(cluster, b1=(4, 30), b2=(4, 20), b3=(4, 10))) == 3


def test_loss_of_many_partitions_is_accepted_in_linear_time() -> None:
    """After a power cut there may be thousands, and nobody else has his turn meanwhile."""
    compared = 0

    class Number(int):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    cluster = declining(partition_count=60)
    keys = list(cluster.context.partitions())
    found = {key: {1: told(cluster, 1, 4, 30), 2: told(cluster, 2, 4, 20)} for key in keys}
    asked = [(topic, Number(partition)) for topic, partition in keys]
    compared = 0
    cluster.run(procedures.elect(cluster.context, asked, ElectionType.UNCLEAN, found))
    assert all(cluster.context.states[key].leader == 1 for key in keys)
    assert compared < 20 * len(keys)
