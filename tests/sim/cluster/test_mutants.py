"""Each deliberate bug is seen by the simulator, so that it would see others too."""

from typing import Final

import pytest

from .lives import catch
from .mutants import MUTANTS, UNSEEN

SEEDS: Final = 500

FIRST_SEED: Final[dict[str, int]] = {
    "forget_to_flush": 193,
    "skip_epochs_without_records": 291,
    "listen_to_earlier_controllers": 34,
    "join_before_the_epoch_start": 116,
    "keep_gaps": 19,
    "cut_where_the_leader_says": 17,
}
"""Where a bug shows that shows rarely; should it not show there any more, all are tried."""


@pytest.mark.wire
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - UNSEEN))
def test_a_bug_is_caught(name: str) -> None:
    first = FIRST_SEED.get(name, 0)
    with MUTANTS[name]():
        found = catch((first, *range(SEEDS)))
    assert found is not None, f"{name} was not seen in {SEEDS} lives"
