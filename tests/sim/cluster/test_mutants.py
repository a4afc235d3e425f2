"""Each deliberate bug is seen by the simulator, so that it would see others too."""

from typing import Final

import pytest

from .lives import catch
from .mutants import MUTANTS, RARE, UNSEEN

SEEDS: Final = 500

FIRST_SEED: Final[dict[str, int]] = {
    "let_a_thread_write_on": 305,
    "skip_epochs_without_records": 283,
    "cut_where_the_leader_says": 251,
    "join_before_the_epoch_start": 145,
    "keep_gaps": 131,
    "forget_to_flush": 17,
    "keep_epochs_of_what_is_cut": 14,
    "take_answers_of_earlier_leaders": 12,
}
"""Where a bug shows that shows rarely; should it not show there any more, all are tried."""


@pytest.mark.wire
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - RARE.keys() - UNSEEN))
def test_a_bug_is_caught(name: str) -> None:
    first = FIRST_SEED.get(name, 0)
    with MUTANTS[name]():
        found = catch((first, *range(SEEDS)))
    assert found is not None, f"{name} was not seen in {SEEDS} lives"


@pytest.mark.wire
@pytest.mark.parametrize(("name", "seed"), RARE.items())
def test_a_bug_is_caught_later(name: str, seed: int) -> None:
    assert seed >= SEEDS
    with MUTANTS[name]():
        assert catch([seed]) is not None, f"{name} was not seen with seed {seed}"
