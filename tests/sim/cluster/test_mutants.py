"""Each deliberate bug is seen by the simulator, so that it would see others too."""

from typing import Final

import pytest

from .lives import catch
from .mutants import MUTANTS

SEEDS: Final = 500

FIRST_SEED: Final[dict[str, int]] = {}
"""Where a bug shows that shows rarely."""


@pytest.mark.wire
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_caught(name: str) -> None:
    first = FIRST_SEED.get(name, 0)
    with MUTANTS[name]():
        found = catch((first, *range(SEEDS)))
    assert found is not None, f"{name} was not seen in {SEEDS} lives"
