"""Patterns of peers: RE2's dialect, whole names, bounded, silent."""

import subprocess
import sys
import time
from collections.abc import Iterable

import pytest

from odradek.broker.core.groups.regex import PATTERN_SIZE_MAX, Pattern, compile_pattern
from odradek.protocol.errors import ErrorCode, Refused

NAMES = ["orders", "orders-eu", "payments", "Orders", "a.b", "axb"]


def matching(pattern: Pattern, names: Iterable[str]) -> list[str]:
    return [name for name in names if pattern.fullmatch(name) is not None]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-eu"]),
        ("(?i)orders", ["orders", "Orders"]),
        ("o.*|p.*", ["orders", "orders-eu", "payments"]),
        ("orders|payments", ["orders", "payments"]),
        (r"a\.b", ["a.b"]),
        (r"\Qa.b\E", ["a.b"]),
        ("^orders$", ["orders"]),
        ("rders", []),
        ("(?P<region>orders)-eu", ["orders-eu"]),
        (".*", NAMES),
        ("", []),
        ("|".join(f"topic-{number}" for number in range(150)), []),
    ],
)
def test_a_pattern_must_match_the_whole_name(pattern: str, expected: list[str]) -> None:
    assert matching(compile_pattern(pattern), NAMES) == expected


@pytest.mark.parametrize(
    "pattern",
    ["(", "[a", "a**", "a{1001}", r"\1", "(?=a)", "(?<=a)b", "(?P<n", "(a{100}){100}", r"\pL{300}"],
)
def test_a_pattern_that_re2_refuses(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Refused, match="cannot be used: ") as refused:
        compile_pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"`{pattern}`" in str(refused.value.message)
    assert capfd.readouterr() == ("", "")


def test_a_pattern_of_any_size_gets_a_short_answer() -> None:
    with pytest.raises(Refused, match="longer than") as refused:
        compile_pattern("a" * (PATTERN_SIZE_MAX + 1))
    assert len(str(refused.value)) < 600
    with pytest.raises(Refused, match="missing") as refused:
        compile_pattern("(" + "a" * 10_000)
    assert len(str(refused.value)) < 600
    with pytest.raises(Refused, match="not Unicode"):
        compile_pattern("\ud800")


def test_a_pattern_that_kills_backtracking_engines_is_quick() -> None:
    began = time.thread_time()  # which stands still with the machine
    assert matching(compile_pattern("(a*)*(a*)*(a|aa)*b"), ["a" * 249] * 50) == []
    assert time.thread_time() - began < 1.0


def test_re2_is_imported_when_it_is_needed() -> None:
    code = "import sys, odradek.broker.core.groups.regex; sys.exit('re2' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
