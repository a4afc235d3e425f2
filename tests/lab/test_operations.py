"""The 25 operations of `operations.py`, done to Odradek: the cluster ends as Apache Kafka's did.

Compared are every znode (path, data, version, ephemeral flag), what the brokers' Metadata says, and
what Kafka's own tool prints; with `make soak` Kafka itself, recorded anew, with what is kept.
"""

from collections.abc import Sequence

import pytest

from tests.lab.operations import OPERATIONS, names
from tests.lab.script import Outcome, run_all
from tests.lab.vectors import changes, differences, load

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(600)]


def compare(outcomes: Sequence[Outcome], operation: str) -> None:
    """Fail with every difference from what is kept of one operation."""
    last = outcomes[-1]
    outcome = next((outcome for outcome in outcomes if outcome.operation == operation), None)
    assert outcome is not None, f"not reached: {last.operation} ended in {last.error}"
    assert outcome.error is None, outcome.error
    assert [what for moment in outcome.moments for what in moment.unsettled] == []
    found = differences(load()[operation], changes(outcomes)[operation])
    assert not found, f"{len(found)} differences\n" + "\n".join(found)


@pytest.fixture(scope="module")
def odradek(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Outcome]:
    """What became of each operation on a cluster of three Odradek brokers."""
    return run_all("odradek", directory=tmp_path_factory.mktemp("odradek"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Outcome]:
    """The same on a cluster of Apache Kafka 3.9.2."""
    return run_all("kafka", directory=tmp_path_factory.mktemp("kafka"))


def test_there_are_25_operations() -> None:
    assert len(OPERATIONS) == len(set(names())) == 25


@pytest.mark.parametrize("operation", names())
def test_ends_as_with_kafka(odradek: Sequence[Outcome], operation: str) -> None:
    compare(odradek, operation)


@pytest.mark.soak
@pytest.mark.parametrize("operation", names())
def test_kafka_is_as_recorded(kafka: Sequence[Outcome], operation: str) -> None:
    compare(kafka, operation)
