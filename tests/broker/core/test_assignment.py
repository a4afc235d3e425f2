from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.assignment import (
    BrokerRack,
    alternate_racks,
    assign_added,
    assign_replicas,
    check_added_assignment,
    check_counts,
    check_manual_assignment,
    check_racks,
)
from odradek.protocol.errors import ErrorCode, Refused

VECTORS = Path(__file__).parents[2] / "vectors" / "replica_assignment.tsv"


def read_vectors() -> list[list[str]]:
    lines = VECTORS.read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("vector", read_vectors(), ids=lambda vector: vector[0])
def test_as_kafka_assigns(vector: list[str]) -> None:
    brokers = []
    for broker in vector[0].split():
        broker_id, _, rack = broker.partition(":")
        brokers.append(BrokerRack(int(broker_id), rack or None))
    partitions, factor, start, first = map(int, vector[1:5])
    expected = {}
    for item in vector[5].split():
        partition, _, replicas = item.partition("=")
        expected[int(partition)] = [int(replica) for replica in replicas.split(",")]
    assigned = assign_replicas(
        brokers, partitions, factor, start=start, shift=start, partition_first=first
    )
    assert dict(enumerate(assigned, start=first)) == expected


@st.composite
def clusters(draw: st.DrawFn) -> list[BrokerRack]:
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True))
    racks = st.none() if draw(st.booleans()) else st.sampled_from("abcd")
    return [BrokerRack(broker_id, draw(racks)) for broker_id in ids]


@given(
    clusters(), st.integers(1, 40), st.integers(1, 9), st.integers(0, 20), st.integers(0, 20),
    st.integers(0, 50),
)  # fmt: skip
@pytest.mark.slow
def test_what_an_assignment_promises(
    brokers: list[BrokerRack], partitions: int, factor: int, start: int, shift: int, first: int
) -> None:
    factor = min(factor, len(brokers))
    assigned = assign_replicas(
        brokers, partitions, factor, start=start, shift=shift, partition_first=first
    )
    racks = {broker.broker_id: broker.rack for broker in brokers}
    assert len(assigned) == partitions
    for replicas in assigned:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(racks)
        distinct_racks = {racks[replica] for replica in replicas}
        if None not in racks.values():
            assert len(distinct_racks) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in assigned)
    counts = [leaders[broker_id] for broker_id in racks]
    assert max(counts) - min(counts) <= 1


def test_without_racks_all_replicas_are_spread_evenly() -> None:
    brokers = [BrokerRack(broker_id) for broker_id in range(5)]
    assigned = assign_replicas(brokers, 20, 3, start=0, shift=0)
    replicas = Counter(replica for partition in assigned for replica in partition)
    assert set(replicas.values()) == {12}
    assert len({tuple(sorted(partition)) for partition in assigned}) == 10  # all pairings


def test_racks_count_only_if_every_broker_has_one() -> None:
    some = [BrokerRack(0, "a"), BrokerRack(1), BrokerRack(2, "a")]
    none = [BrokerRack(broker_id) for broker_id in range(3)]
    assert assign_replicas(some, 9, 2, start=1, shift=0) == assign_replicas(
        none, 9, 2, start=1, shift=0
    )


def test_racks_are_dealt_in_turn() -> None:
    assert alternate_racks({0: "b", 1: "a", 2: "a", 3: "c", 4: "a"}) == [1, 0, 3, 2, 4]


@pytest.mark.slow
@given(clusters(), st.integers(1, 12), st.integers(1, 12), st.integers(1, 9))
def test_added_partitions_go_on_with_the_round(
    brokers: list[BrokerRack], before: int, added: int, factor: int
) -> None:
    factor = min(factor, len(brokers))
    plain = sorted(BrokerRack(broker.broker_id) for broker in brokers)
    start = len(plain) // 2
    whole = assign_replicas(plain, before + added, factor, start=start, shift=start)
    leaders = [replicas[0] for replicas in assign_added(plain, whole[:before], added)]
    assert leaders == [replicas[0] for replicas in whole[before:]]


def test_added_partitions_when_the_first_broker_is_gone() -> None:
    brokers = [BrokerRack(1), BrokerRack(3)]
    assert assign_added(brokers, [[2]], 2) == [[1], [3]]
    assert assign_added(brokers, [[9]], 1) == [[3]]


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-1, 1, ErrorCode.INVALID_PARTITIONS),
        (101, 1, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_counts_that_are_refused(partitions: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(Refused) as refused:
        check_counts(partitions, factor, 3, partitions_max=100)
    assert refused.value.code is code


def test_counts_that_pass() -> None:
    check_counts(100, 3, 3, partitions_max=100)


@pytest.mark.parametrize(
    ("assignment", "word"),
    [
        ({}, "no partition"),
        ({1: [0]}, "gap"),
        ({0: [0], 2: [0]}, "gap"),
        ({0: [0], 1: [0], -1: [0]}, "gap"),
        ({0: []}, "no replica"),
        ({0: [0, 0]}, "twice"),
        ({0: [7]}, "unknown brokers only: 7"),
        ({0: [-1]}, "unknown"),
        ({0: [0], 1: [0, 1]}, "2 replicas where others have 1"),
        ({0: list(range(100, 200))}, "…"),
    ],
)
def test_manual_assignments_that_are_refused(assignment: dict[int, list[int]], word: str) -> None:
    with pytest.raises(Refused) as refused:
        check_manual_assignment(assignment, [0, 1], partitions_max=10)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert word in str(refused.value)


def test_a_manual_assignment_of_too_many_partitions() -> None:
    with pytest.raises(Refused) as refused:
        check_manual_assignment({key: [0] for key in range(11)}, [0], partitions_max=10)
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS


def test_manual_assignments_that_pass() -> None:
    check_manual_assignment({1: [1, 0], 0: [0, 1]}, [0, 1], partitions_max=10)
    check_manual_assignment({0: [7, 0], 1: [1, 7]}, [0, 1], partitions_max=10)  # 7 may come


def test_a_table_with_another_order_in_each_row_is_an_explicit_assignment() -> None:
    """Its first two rows go to the right and to the left: no start and shift give that."""
    table = {0: [0, 1, 2], 1: [1, 0, 2], 2: [2, 0, 1]}
    check_manual_assignment(table, [0, 1, 2], partitions_max=10)
    brokers = [BrokerRack(broker_id) for broker_id in range(3)]
    given = list(table.values())
    for start, shift in product(range(3), range(2)):
        assert assign_replicas(brokers, 3, 3, start=start, shift=shift) != given


def test_racks_of_all_brokers_or_of_none() -> None:
    check_racks([BrokerRack(0), BrokerRack(1)])
    check_racks([BrokerRack(0, "a"), BrokerRack(1, "a")])
    with pytest.raises(Refused, match="brokers 1, 2 name no rack") as refused:
        check_racks([BrokerRack(2), BrokerRack(0, "a"), BrokerRack(1)])
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("total", "added", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[0], [0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[5]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[0, 0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[0, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_added_assignments_that_are_refused(
    total: int, added: list[list[int]] | None, code: ErrorCode
) -> None:
    with pytest.raises(Refused) as refused:
        check_added_assignment([[0], [0]], total, added, [0, 1])
    assert refused.value.code is code


def test_added_assignments_that_pass() -> None:
    assert check_added_assignment([[0], [0]], 5, None, [0]) == 3
    assert check_added_assignment([[0], [0]], 4, [[1], [0]], [0, 1]) == 2
