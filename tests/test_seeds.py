"""Which counts and seeds the tests get that repeat what chance decides."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.seeds import REPEAT, SEED, Repeats, Seeds, repeated


def goes(**counts: int) -> dict[str, tuple[Repeats, set[str]]]:
    """Of each set of parameters by its id: what the test is given, and its marks."""
    _, parameters = repeated(**counts).mark.args
    return {p.id: (p.values[0], {mark.name for mark in p.marks}) for p in parameters}


def test_make_test_has_one_seed_and_each_soak_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPEAT, raising=False)
    first, again = (goes(in_test=4, in_soak=100, soak_rounds=2) for _ in range(2))
    assert list(first) == list(again) == ["4", "soak-0", "soak-1"]  # alike in all processes
    assert first["4"] == again["4"] == (Repeats(4, SEED), {"timeout"})
    repeats, marks = first["soak-1"]
    assert (repeats.count, marks) == (100, {"timeout", "soak"})
    assert repeats.seed != first["soak-0"][0].seed
    assert [go["soak-0"][0].seed for go in (first, again)] != [SEED, SEED]
    assert len({goes(in_soak=1)["soak-0"][0].seed for _ in range(10)}) > 1


def test_a_seed_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPEAT, "7")
    given = goes(in_test=4, in_soak=100, soak_rounds=2)
    assert {repeats.seed for repeats, _ in given.values()} == {7}
    assert [repeats.count for repeats, _ in given.values()] == [4, 100, 100]


@pytest.mark.parametrize(
    ("outcome", "keyword", "said"),
    [("failed", "x", True), ("passed", "x", False), ("passed", "soak", True)],
)
def test_the_seeds_of_failures_and_of_all_soaks_are_printed(
    outcome: Any, keyword: str, said: bool
) -> None:
    seeds, lines = Seeds(), list[str]()
    report = pytest.TestReport(
        "tests/test_x.py::test_y", ("", 1, ""), {keyword: 1}, outcome, None, "call"
    )
    report.user_properties.append((REPEAT, 7))
    seeds.pytest_runtest_logreport(report)
    terminal: Any = SimpleNamespace(section=lines.append, line=lines.append)
    seeds.pytest_terminal_summary(terminal)
    wanted = ["seeds", f"{REPEAT}=7 {outcome} tests/test_x.py::test_y"] if said else []
    assert lines == wanted
