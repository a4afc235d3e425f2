"""Which brokers hold which replicas of a new topic.

Kafka's rule without racks: the first replica of partition p is on the broker at (start + p); the
others follow at a distance that grows by one after each full round, so that partitions which share
their first broker do not share all their followers.

With racks the brokers are taken from the racks in turn (one of each rack, repeatedly). A broker is
skipped while its rack already has a replica and another rack has none.

Both guarantee, for any start and shift: distinct brokers within a partition, first replicas spread
evenly (counts differ by at most one per run), and at most one replica per rack while racks are
left.  There is no randomness here: the caller draws `start` and `shift`.

Source: KIP-36, and vectors taken from Kafka 3.9.2's `AdminUtils.assignReplicasToBrokers`.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode, Refused


class BrokerRack(NamedTuple):
    """A live broker and the rack it reports."""

    broker_id: int
    rack: str | None = None


Replicas = list[int]
"""Broker ids; the first is the preferred leader."""

_broker_id = attrgetter("broker_id")


def check_counts(
    partitions: int, replication_factor: int, broker_count: int, *, partitions_max: int
) -> None:
    """Check that partitions and replicas can be assigned in these numbers.

    Raises: Refused with INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR.
    """
    if partitions <= 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "the number of partitions must be at least 1")
    if partitions > partitions_max:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions are more than the {partitions_max} that one topic may have",
        )
    if replication_factor <= 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR, "the replication factor must be at least 1"
        )
    if replication_factor > broker_count:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} is larger than the number of live brokers, "
            f"{broker_count}",
        )


def check_racks(brokers: Iterable[BrokerRack]) -> None:
    """Check that either all brokers name a rack, or none of them.

    Kafka 3.9 assigns nothing otherwise, whether a topic is requested or created automatically, and
    answers with this code.

    Raises: Refused with UNKNOWN_SERVER_ERROR.
    """
    brokers = list(brokers)
    without = sorted(broker.broker_id for broker in brokers if broker.rack is None)
    if 0 < len(without) < len(brokers):
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"replicas cannot be assigned: brokers {_listed(without)} name no rack, others do",
        )


def assign_replicas(
    brokers: Iterable[BrokerRack],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    partition_first: int = 0,
) -> list[Replicas]:
    """Replica lists for `partitions` partitions, numbered from `partition_first`.

    The caller has called `check_counts`, and `check_racks` if a cluster must behave as Kafka does:
    here racks count only if every broker names one.
    """
    racks = {broker.broker_id: broker.rack for broker in sorted(brokers, key=_broker_id)}
    assert 0 < replication_factor <= len(racks)
    known = {broker_id: rack for broker_id, rack in racks.items() if rack is not None}
    rack_aware = len(known) == len(racks)
    order = alternate_racks(known) if rack_aware else list(racks)
    assigned = []
    for partition in range(partition_first, partition_first + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        if rack_aware:
            assigned.append(_across_racks(order, known, first, shift, replication_factor))
        else:
            indexes = [
                _follower(first, shift, i, len(order)) for i in range(replication_factor - 1)
            ]
            assigned.append([order[first], *(order[index] for index in indexes)])
    return assigned


def assign_added(
    brokers: Iterable[BrokerRack], existing: Sequence[Sequence[int]], partitions: int
) -> list[Replicas]:
    """Replica lists for `partitions` more partitions of a topic that has `existing` ones.

    The start is the position of partition 0's first replica among the brokers by id (of the next
    broker if it is gone). The shift equals the start, and the numbering continues. The caller has
    called `check_counts` with the replication factor of `existing[0]`.
    """
    ordered = sorted(brokers, key=_broker_id)
    first_replica = existing[0][0]
    start = next((i for i, b in enumerate(ordered) if b.broker_id >= first_replica), 0)
    return assign_replicas(
        ordered,
        partitions,
        len(existing[0]),
        start=start,
        shift=start,
        partition_first=len(existing),
    )


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """Brokers taken from their racks in turn: one of each rack in order of name, repeatedly."""
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    piles = [by_rack[rack] for rack in sorted(by_rack)]
    rounds = max(map(len, piles))
    return [pile[i] for i in range(rounds) for pile in piles if i < len(pile)]


def _follower(first: int, shift: int, index: int, broker_count: int) -> int:
    distance = 1 + (shift + index) % (broker_count - 1)
    return (first + distance) % broker_count


def _across_racks(
    order: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> Replicas:
    rack_count = len(set(racks.values()))
    replicas = [order[first]]
    used_racks = {racks[order[first]]}
    index = 0
    while len(replicas) < replication_factor:
        broker_id = order[_follower(first, shift * rack_count, index, len(order))]
        index += 1
        fresh_rack = racks[broker_id] not in used_racks or len(used_racks) == rack_count
        if fresh_rack and broker_id not in replicas:
            replicas.append(broker_id)
            used_racks.add(racks[broker_id])
    return replicas


def check_manual_assignment(
    assignment: Mapping[int, Sequence[int]], brokers: Iterable[int], *, partitions_max: int
) -> None:
    """Check an assignment for a new topic: partition -> replicas.

    As in Kafka's ZooKeeper mode, it may name brokers that are not among the live `brokers`: they
    may start later.  Unlike Kafka, a partition is refused if its replica list is empty or contains
    no live broker: nobody could serve it.

    Raises: Refused with INVALID_REPLICA_ASSIGNMENT or INVALID_PARTITIONS.
    """
    if not assignment:
        raise _refuse("no partition is assigned")
    if len(assignment) > partitions_max:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{len(assignment)} partitions are more than the {partitions_max} that one topic may "
            "have",
        )
    if min(assignment) != 0 or max(assignment) != len(assignment) - 1:
        raise _refuse("the partitions must be numbered 0, 1, 2, … without a gap")
    _check_replicas(assignment, len(assignment[0]))
    live = frozenset(brokers)
    for partition, replicas in sorted(assignment.items()):
        if min(replicas) < 0:
            raise _refuse(f"partition {partition} names unknown brokers: {_listed(replicas)}")
        if live.isdisjoint(replicas):
            raise _refuse(f"partition {partition} names unknown brokers only: {_listed(replicas)}")


def check_added_assignment(
    existing: Sequence[Sequence[int]],
    total_partitions: int,
    added: Sequence[Sequence[int]] | None,
    brokers: Iterable[int],
) -> int:
    """How many partitions CreatePartitions adds.  `added` is None if the broker assigns them.

    Every named broker must be among the live `brokers`, as in Kafka.

    The caller has called `check_counts` with `total_partitions`, for its upper bound.

    Raises: Refused with INVALID_PARTITIONS or INVALID_REPLICA_ASSIGNMENT.
    """
    count = total_partitions - len(existing)
    if count <= 0:
        relation = "already has" if count == 0 else "has more than that:"
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{total_partitions} partitions asked for, but the topic {relation} {len(existing)}",
        )
    if added is not None:
        if len(added) != count:
            raise _refuse(f"{count} partitions are added but {len(added)} are assigned")
        live = frozenset(brokers)
        by_partition = dict(enumerate(added, start=len(existing)))
        _check_replicas(by_partition, len(existing[0]))
        for partition, replicas in by_partition.items():
            if unknown := [broker_id for broker_id in replicas if broker_id not in live]:
                raise _refuse(f"partition {partition} names unknown brokers: {_listed(unknown)}")
    return count


def _check_replicas(assignment: Mapping[int, Sequence[int]], replication_factor: int) -> None:
    for partition, replicas in sorted(assignment.items()):
        if not replicas:
            raise _refuse(f"partition {partition} has no replica")
        if len(set(replicas)) != len(replicas):
            raise _refuse(f"partition {partition} names a broker twice: {_listed(replicas)}")
        if len(replicas) != replication_factor:
            raise _refuse(
                f"partition {partition} has {len(replicas)} replicas where others have "
                f"{replication_factor}"
            )


def _listed(broker_ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, broker_ids[:10]))
    return shown if len(broker_ids) <= 10 else f"{shown}, …"


def _refuse(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
