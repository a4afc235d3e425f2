"""Each deliberate bug is seen by the simulator, so that it would see others too."""

from typing import Final

import pytest

from .lives import catch
from .mutants import MUTANTS, UNSEEN

SEEDS: Final = 500

FIRST_SEED: Final[dict[str, int]] = {
    "let_a_thread_write_on": 173,
    "keep_gaps": 147,
    "join_before_the_epoch_start": 122,
    "cut_where_the_leader_says": 78,
    "skip_epochs_without_records": 78,
    "forget_to_flush": 63,
    "tell_the_high_watermark_once": 59,
    "forget_unreplicated_markers_in_a_cut": 31,
    "take_answers_of_earlier_leaders": 5,
    "truncate_by_high_watermark": 16,
}
"""Where a bug shows that shows rarely; should it not show there any more, all are tried."""


@pytest.mark.wire
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - UNSEEN))
def test_a_bug_is_caught(name: str) -> None:
    first = FIRST_SEED.get(name, 0)
    with MUTANTS[name]():
        found = catch((first, *range(SEEDS)))
    assert found is not None, f"{name} was not seen in {SEEDS} lives"
