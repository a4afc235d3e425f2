"""Whole brokers over the embedded store, in one process on the simulated loop, in a storm.

All code of the broker is the real one, over files in memory: listeners, requests between brokers,
elections, in-sync sets, idempotent producers, fetches that wait, groups, compaction.
`tests/sim/cluster` runs the decisions, the fetchers and the logs only, on a store and disks of its
own; it lives fifteen lives while one is lived here, cuts the power, and breaks disks.

One seed: ODRADEK_SIM_SEED=7 pytest tests/sim/brokers; some: ODRADEK_SIM_SEED=2000..2099.
"""

from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest

from tests.lab.soak import Progress
from tests.seeds import seeds

from .lives import Life, live_once
from .storm import ENOUGH

MANY: Final = 8
SOAK_SEEDS: Final = 5_000
AT_ONCE: Final = 50


def check_enough_happened(life: Life) -> None:
    assert all(life.happened[name] >= count for name, count in ENOUGH.items())
    assert life.records > 10
    assert life.updates > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, MANY))
def test_promises_hold_in_a_storm(seed: int, tmp_path: Path) -> None:
    check_enough_happened(live_once(seed, tmp_path / "data").value)


@pytest.mark.slow
def test_one_seed_one_trace(tmp_path: Path) -> None:
    first, second, other = (live_once(seed, tmp_path / "data") for seed in (3, 3, 4))
    assert first.trace.digest == second.trace.digest
    assert first.value == second.value
    assert first.trace.digest != other.trace.digest


def live_all(lives: range, directory: Path) -> None:
    for seed in lives:
        check_enough_happened(live_once(seed, directory).value)


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_promises_hold_in_many_storms(tmp_path: Path) -> None:
    """In forks, one after the other: what a killed process held is never freed."""
    forks = get_context("fork").Pool(1, maxtasksperchild=1)
    with Progress("brokers", SOAK_SEEDS) as progress, forks:
        while progress.left:
            first, count = MANY + progress.done, min(AT_ONCE, progress.left)
            forks.apply(live_all, (range(first, first + count), tmp_path / "data"))
            progress.add(count)
