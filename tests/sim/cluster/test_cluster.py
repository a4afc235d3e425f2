"""Controllers, leaders and followers under delays, duplicates, lost messages, crashes and expiry.

The procedures of the controller, the brokers' rules, their fetchers and their logs are the real
ones; store, network, clock and disks are simulated.

One seed: ODRADEK_SIM_SEED=7 pytest tests/sim/cluster; some: ODRADEK_SIM_SEED=20000..29999, with -m
soak also for the soak test, whose 50,000 seeds may so be run in parts.
"""

import os
import subprocess
import sys

import pytest

from odradek.broker.core.controller.status import PARTITION_BEFORE, REPLICA_BEFORE
from tests.seeds import VARIABLE, seeds

from .checks import Transitions
from .isr_steps import ALL_STEPS, IsrSteps
from .lives import live, live_once, simulated

SOAK_SEEDS = 50_000


def check_all_were_made(transitions: Transitions, steps: IsrSteps) -> None:
    """Every pair of the tables of the controller, and of the one of in-sync sets."""
    partitions = {(b, a) for a, befores in PARTITION_BEFORE.items() for b in befores}
    replicas = {(b, a) for a, befores in REPLICA_BEFORE.items() for b in befores}
    assert transitions.partitions == partitions
    assert transitions.replicas == replicas
    assert steps.taken >= ALL_STEPS


def test_promises_hold_in_a_storm() -> None:
    live(seeds(6, 6))


@pytest.mark.wire
@pytest.mark.timeout(600)
def test_every_transition_is_made() -> None:
    check_all_were_made(*live(range(6, 500)))


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_promises_hold_in_many_storms() -> None:
    if os.environ.get(VARIABLE):
        live(seeds(0, 0))
    else:
        check_all_were_made(*live(range(500, 500 + SOAK_SEEDS)))


def test_a_seed_is_a_life() -> None:
    """Also in another process, whose strings hash otherwise."""
    with simulated():
        trace = live_once(3).trace
        assert live_once(3).trace == trace
        assert live_once(4).trace != trace
    code = (
        "from tests.sim.cluster.lives import live_once, simulated\n"
        "with simulated(): print(live_once(3).trace)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1234"}
    other = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert int(other.stdout) == trace
