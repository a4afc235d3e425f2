"""What a coordinator of transactions promises holds, whatever happens to it.

- What is decided, and told to a producer, is what all partitions get, and nothing else.
- Each partition of a complete transaction has a marker of the decided kind, in the right epoch.
- The shard knows what the committed log says, and waits for nothing else.
- Epochs do not go back, and no two producers have one.
- Nothing is aborted or forgotten early, and every transaction ends.

One seed: ODRADEK_SIM_SEED=7 pytest tests/sim/transactions; some: ODRADEK_SIM_SEED=2000..2099.
"""

from typing import Final

import pytest

from tests.lab.soak import Progress
from tests.seeds import seeds

from .history import STEPS
from .lives import catch, live_once
from .mutants import MUTANTS

FEW: Final = 50
MANY: Final = 300
SOAK_SEEDS: Final = 10_000
AT_ONCE: Final = 500
CAUGHT_WITHIN: Final = 400

FIRST_SEED: Final[dict[str, int]] = {
    "believe_the_wall_clock": 197,
    "count_markers_of_the_transaction_before": 148,
    "forget_to_fence": 54,
}
"""Where a bug shows that shows rarely; should it not show there any more, all are tried."""


@pytest.mark.slow
def test_promises_hold() -> None:
    lives = [live_once(seed) for seed in seeds(FEW, MANY)]
    if len(lives) >= FEW:
        assert {step for world in lives for step in world.history.steps} == STEPS


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_promises_hold_in_many_lives() -> None:
    with Progress("transactions", SOAK_SEEDS) as progress:
        while progress.left:
            first, count = MANY + progress.done, min(AT_ONCE, progress.left)
            ended = acknowledged = 0
            for seed in range(first, first + count):
                world = live_once(seed)
                ended += len(world.history.all)
                acknowledged += sum(item.acknowledged is not None for item in world.items)
            progress.add(count, ended=ended, acknowledged=acknowledged)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_caught(name: str) -> None:
    with MUTANTS[name]():
        assert catch((FIRST_SEED.get(name, 0), *range(CAUGHT_WITHIN))) is not None
