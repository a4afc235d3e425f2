"""Controllers, leaders and followers under delays, duplicates, lost messages, crashes and expiry.

The procedures of the controller, the brokers' rules, their fetchers and their logs are the real
ones; store, network, clock and disks are simulated.

A Fetch that waits for news, `IsrChanges`, `Checkpointer`, idempotent producers, groups and
compaction do not run here, but in `tests/sim/brokers`.

One seed: ODRADEK_SIM_SEED=7 pytest tests/sim/cluster; some: ODRADEK_SIM_SEED=20000..20499.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.core.controller.status import PARTITION_BEFORE, REPLICA_BEFORE
from tests.lab.soak import Progress, lines
from tests.seeds import seeds

from .checks import Transitions
from .isr_steps import ALL_STEPS, IsrSteps
from .lives import live, live_once, simulated
from .world import World

SEEDS: Final = range(6, 130)
SOAK_FIRST: Final = 500
SOAK_SEEDS: Final = 50_000
AT_ONCE: Final = 500
"""So many lives show every transition, the rarest in one of a dozen; what was ended midway, that
many are lived again at most."""


def check_all_were_made(transitions: Transitions, steps: IsrSteps) -> None:
    """Every pair of the tables of the controller, and of the one of in-sync sets."""
    partitions = {(b, a) for a, befores in PARTITION_BEFORE.items() for b in befores}
    replicas = {(b, a) for a, befores in REPLICA_BEFORE.items() for b in befores}
    assert transitions.partitions == partitions
    assert transitions.replicas == replicas
    assert steps.taken >= ALL_STEPS


def live_on(progress: Progress, *, at_once: int) -> None:
    """As many lives as are left, after those of `make test`."""
    while progress.left:
        first, count = SOAK_FIRST + progress.done, min(at_once, progress.left)
        check_all_were_made(*live(range(first, first + count)))
        progress.add(count)


@pytest.mark.slow
def test_promises_hold_in_a_storm() -> None:
    live(seeds(6, 6))


@pytest.mark.wire
@pytest.mark.timeout(600)
def test_every_transition_is_made() -> None:
    check_all_were_made(*live(SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_promises_hold_in_many_storms() -> None:
    with Progress("sim", SOAK_SEEDS) as progress:
        live_on(progress, at_once=AT_ONCE)


def test_a_long_run_goes_on_where_it_was_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived: list[int] = []
    ending = {525}

    def live(seeds: range) -> tuple[Transitions, IsrSteps]:
        if ending.intersection(seeds):
            ending.clear()
            raise KeyboardInterrupt
        lived.extend(seeds)
        return Transitions(), IsrSteps()

    monkeypatch.setattr(f"{__name__}.live", live)
    monkeypatch.setattr(f"{__name__}.check_all_were_made", lambda *made: None)
    with pytest.raises(KeyboardInterrupt):
        live_on(Progress("sim", 35, tmp_path), at_once=10)
    assert lived == [*range(500, 520)]
    live_on(Progress("sim", 35, tmp_path), at_once=10)
    assert lived == [*range(500, 535)]
    assert "35/35" in lines("sim", tmp_path)[0]


def test_a_trace_tells_what_has_happened_and_to_whom() -> None:
    def trace(happen: Callable[[], object], who: str = "") -> int:
        world = World(1)
        world.after(7, happen, who)
        world.step()
        return world.trace

    assert trace(list) == trace(list)
    assert len({trace(list), trace(dict), trace(list, "1"), trace(list, "2")}) == 4


@pytest.mark.slow
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
