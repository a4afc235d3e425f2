"""Each deliberate bug is seen by the simulator, so that it would see others too."""

from pathlib import Path
from typing import Final

import pytest

from .lives import catch
from .mutants import MUTANTS, UNSEEN

SEEDS: Final = 60

FIRST_SEED: Final = {
    "answer_before_it_is_committed": 5,
    "answer_commits_before_they_are_committed": 1,
    "forget_what_producers_have_sent": 1,
}
"""Where a bug shows that shows rarely or late; should it not show there any more, all are tried."""


@pytest.mark.wire
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - UNSEEN))
def test_a_bug_is_caught(name: str, tmp_path: Path) -> None:
    first = FIRST_SEED.get(name, 0)
    with MUTANTS[name]():
        found = catch((first, *range(SEEDS)), tmp_path / "data")
    assert found is not None, f"{name} was not seen in {SEEDS} lives"
