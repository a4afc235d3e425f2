"""Chance in tests: which seeds they run, and how often they repeat what chance decides.

`make unit` and `make test` have the same seeds each time, and of the same source Hypothesis draws
the same examples: it takes them from the test, and from constants of the project.  `make soak` has
other seeds in each run, and prints them; ODRADEK_SEED repeats one.  Hypothesis has others in its
part `examples` (tests/test_examples.py).
"""

import os
import random
from dataclasses import dataclass
from typing import Final

import pytest

VARIABLE: Final = "ODRADEK_SIM_SEED"
REPEAT: Final = "ODRADEK_SEED"
SEED: Final = 20222
SAME: Final = "same-each-time"
OTHERS: Final = "others-each-time"
"""Profiles of Hypothesis, which tests/conftest.py makes."""
SETTING_UP_S: Final = 150
EACH_S: Final = 15


def seeds(few: int, many: int) -> range:
    """0 up to `few` in `make unit`, or `many` in `make test` (exclusive).

    ODRADEK_SIM_SEED=7 names one, 3..99 a range.
    """
    first, _, last = os.environ.get(VARIABLE, "").partition("..")
    if first:
        return range(int(first), int(last or first) + 1)
    return range(many if os.environ.get("ODRADEK_REQUIRE") else few)


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often a test does something, and the seed of what it leaves to chance."""

    count: int
    seed: int

    def __str__(self) -> str:
        return f"{REPEAT}={self.seed}"


def repeated(
    *,
    in_test: int | None = None,
    in_soak: int,
    soak_rounds: int = 1,
    seed: int = SEED,
    each_s: int = EACH_S,
) -> pytest.MarkDecorator:
    """Give a test `repeats`: so many in `make test`, and in `make soak` in each of some rounds.

    Without `in_test` it is a test of `make soak` only.  The time-out is by the count, `each_s`.
    """
    named = os.environ.get(REPEAT)
    soak_seed = random.SystemRandom().randrange(1_000_000)
    goes = [(f"soak-{n}", Repeats(in_soak, soak_seed + n)) for n in range(soak_rounds)]
    if in_test is not None:
        goes.insert(0, (str(in_test), Repeats(in_test, seed)))
    return pytest.mark.parametrize(
        "repeats",
        [
            pytest.param(
                Repeats(go.count, int(named)) if named else go,
                id=name,
                marks=[
                    pytest.mark.timeout(SETTING_UP_S + each_s * go.count),
                    *([pytest.mark.soak] if name.startswith("soak") else []),
                ],
            )
            for name, go in goes
        ],
        indirect=True,
    )


class Seeds:
    """Prints the seeds of tests that failed, and in `make soak` of all."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seed = dict(report.user_properties).get(REPEAT)
        if report.when == "call" and seed and (report.failed or "soak" in report.keywords):
            self._lines.append(f"{REPEAT}={seed} {report.outcome} {report.nodeid}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("seeds")
        for line in self._lines:
            terminalreporter.line(line)
