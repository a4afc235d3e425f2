"""Controllers and brokers under delays, duplicates, lost messages, crashes and expiry.

The procedures of the controller and the brokers' rules are the real ones; store, network, clock
and disks are simulated. One seed: ODRADEK_SIM_SEED=7 pytest tests/sim/cluster.
"""

import logging
from collections.abc import Iterable, Iterator

import pytest

from odradek.broker.core.controller.status import PARTITION_BEFORE, REPLICA_BEFORE
from tests.seeds import seeds

from .checks import Transitions
from .cluster import CRASHES_MIN, EVENTS_MIN, SimCluster


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """Of what is logged nobody reads anything, and it takes half of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def live(numbers: Iterable[int]) -> Transitions:
    """Let clusters live; the transitions that their controllers have made."""
    transitions = Transitions()
    with transitions.recorded():
        for seed in numbers:
            transitions.forget()
            try:
                outcome = SimCluster(seed, transitions).run()
            except Exception as error:
                error.add_note(f"ODRADEK_SIM_SEED={seed}")
                raise
            assert outcome.events >= EVENTS_MIN
            assert outcome.crashes >= CRASHES_MIN
            assert outcome.controllers >= 2
    return transitions


def check_all_were_made(transitions: Transitions) -> None:
    """Every pair of both tables."""
    partitions = {(b, a) for a, befores in PARTITION_BEFORE.items() for b in befores}
    replicas = {(b, a) for a, befores in REPLICA_BEFORE.items() for b in befores}
    assert transitions.partitions == partitions
    assert transitions.replicas == replicas


def test_promises_hold_in_a_storm() -> None:
    live(seeds(6, 6))


@pytest.mark.wire
@pytest.mark.timeout(300)
def test_every_transition_is_made() -> None:
    check_all_were_made(live(range(6, 500)))


@pytest.mark.soak
def test_promises_hold_in_many_storms() -> None:
    check_all_were_made(live(range(500, 20_500)))
