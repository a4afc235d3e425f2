"""Which seeds a test runs: a few while one works, many in `make test`, or those that one names."""

import os
from typing import Final

VARIABLE: Final = "ODRADEK_SIM_SEED"


def seeds(few: int, many: int) -> range:
    """0 up to `few` or `many` (exclusive); ODRADEK_SIM_SEED=7 names one, 3..99 a range."""
    first, _, last = os.environ.get(VARIABLE, "").partition("..")
    if first:
        return range(int(first), int(last or first) + 1)
    return range(many if os.environ.get("ODRADEK_REQUIRE") else few)
