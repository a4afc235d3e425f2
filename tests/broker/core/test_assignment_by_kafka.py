"""Replica assignment beside Kafka 3.9.2's own AdminUtils."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odradek.broker.core.assignment import (
    BrokerRack,
    assign_added,
    assign_replicas,
    check_counts,
    check_racks,
)
from odradek.protocol.errors import Refused
from tests.kafka.java import run_program

pytestmark = pytest.mark.java

CASES: Final = 2_000
NO_BOUND: Final = 1 << 30
FIVE: Final = [BrokerRack(broker_id) for broker_id in range(5)]
RACKS: Final = [BrokerRack(b, f"rack{rack}") for b, rack in enumerate((1, 3, 3, 2, 2, 1))]


class Case(NamedTuple):
    brokers: Sequence[BrokerRack]
    partitions: int
    replication_factor: int
    start: int
    first: int

    def line(self) -> str:
        """What the Java program reads: brokers by id, as AdminZkClient lists them."""
        ordered = sorted(self.brokers, key=lambda broker: broker.broker_id)
        brokers = (f"{b.broker_id}:{b.rack}" if b.rack else str(b.broker_id) for b in ordered)
        return "\t".join([",".join(brokers), *map(str, self[1:])])

    def ours(self) -> str:
        """What we assign, as the program writes it."""
        try:
            check_counts(
                self.partitions,
                self.replication_factor,
                len(self.brokers),
                partitions_max=NO_BOUND,
            )
            check_racks(self.brokers)
        except Refused as refused:
            return f"error {refused.code}"
        return listed(
            assign_replicas(
                self.brokers,
                self.partitions,
                self.replication_factor,
                start=self.start,
                shift=self.start,
                partition_first=self.first,
            )
        )


def listed(assigned: Sequence[Sequence[int]]) -> str:
    return ",".join(".".join(map(str, replicas)) for replicas in assigned)


def kafka(cases: Sequence[Case]) -> list[str]:
    """Kafka's answers, from one JVM; of an error the code."""
    lines = "".join(f"{case.line()}\n" for case in cases)
    answers = run_program("3.9.2", "Assignment", stdin=lines.encode()).stdout.splitlines()
    return [" ".join(a.split()[:2]) if a.startswith("error") else a for a in answers]


NO_RACK: Final = st.none()
RACK: Final = st.sampled_from("abcde")
PERHAPS: Final = st.sampled_from(["a", "b", None])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Mostly what can be assigned; now and then counts or racks that are refused."""
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
    rack = draw(st.sampled_from([NO_RACK, NO_RACK, RACK, RACK, RACK, PERHAPS]))
    too_much = draw(st.sampled_from([0] * 9 + [1]))
    return Case(
        [BrokerRack(broker_id, draw(rack)) for broker_id in ids],
        draw(st.integers(1, 40)) * (1 - too_much * draw(st.integers(0, 1))),
        draw(st.integers(1, min(len(ids), 7))) + too_much * len(ids),
        draw(st.integers(0, 20)),
        draw(st.integers(0, 50)),
    )


def test_thousands_of_clusters() -> None:
    drawn: list[Case] = []

    @settings(
        max_examples=CASES,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def draw(case: Case) -> None:
        drawn.append(case)

    draw()
    assert len(drawn) >= CASES
    answers = kafka(drawn)
    for case, answer in zip(drawn, answers, strict=True):
        assert case.ours() == answer, case
    assert 0 < sum(answer.startswith("error") for answer in answers) < CASES / 2


def test_the_tables_of_the_documentation() -> None:
    """Start and shift 0: 10 partitions on five brokers, and 7 on six brokers in three racks."""
    plain = Case(FIVE, 10, 3, 0, 0)
    racks = Case(RACKS, 7, 3, 0, 0)
    by_kafka = kafka([plain, racks])
    assert [plain.ours(), racks.ours()] == by_kafka
    assert by_kafka[0] == "0.1.2,1.2.3,2.3.4,3.4.0,4.0.1,0.2.3,1.3.4,2.4.0,3.0.1,4.1.2"
    assert by_kafka[1] == "0.3.1,3.1.5,1.5.4,5.4.2,4.2.0,2.0.3,0.4.2"


def test_added_partitions() -> None:
    """AdminZkClient's rule: start at the position of partition 0's first replica, and count on."""
    existing = [[3, 0], [4, 1], [0, 2]]
    assert [listed(assign_added(FIVE, existing, 9))] == kafka([Case(FIVE, 9, 2, 3, 3)])
    assert [listed(assign_added(RACKS, existing, 9))] == kafka([Case(RACKS, 9, 2, 3, 3)])
