"""The durations of tests and of the admin API."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.durations import SECONDS_MAX, seconds_of


@pytest.mark.parametrize(
    ("value", "expected_s"),
    [
        ("250ms", 0.25),
        ("60s", 60),
        (" 60s ", 60),
        ("1.5s", 1.5),
        ("5m", 300),
        ("2h", 7200),
        ("7d", 604_800),
        ("0s", 0),
        (60, 60),
        (0.25, 0.25),
        (timedelta(minutes=1, milliseconds=1), 60.001),
    ],
)
def test_the_forms(value: object, expected_s: float) -> None:
    assert seconds_of(value) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    "value",
    ["", "60", "s", "60sec", "60S", "1e3s", "1_0s", ".5s", "5.s", "+5s", "--5s", "٣s"],
)
def test_texts_that_are_no_durations(value: str) -> None:
    with pytest.raises(ValueError, match=" is not a duration such as '250ms', "):
        seconds_of(value)


@pytest.mark.parametrize("value", [None, True, b"60s", [60], math.nan, "9" * 400 + "s"])
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match=" is not a duration such as '250ms', "):
        seconds_of(value)


@pytest.mark.parametrize(
    "value",
    [
        "-1ms",
        "-60s",
        -1,
        -0.001,
        -math.inf,
        timedelta(seconds=-1),
        "3651d",
        math.inf,
        10**400,
        "9" * 12 + "d",
    ],
)
def test_negative_and_too_long(value: object) -> None:
    with pytest.raises(ValueError, match=r" is not a duration from 0 to ten years$"):
        seconds_of(value)


@given(st.integers(0, SECONDS_MAX * 1000), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_all_forms_of_a_duration_agree(duration_ms: int, unit: str) -> None:
    unit_ms = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}[unit]
    in_units = duration_ms // unit_ms
    expected_s = pytest.approx(in_units * unit_ms / 1000)
    assert seconds_of(f"{in_units}{unit}") == expected_s
    assert seconds_of(timedelta(milliseconds=in_units * unit_ms)) == expected_s
    assert seconds_of(in_units * unit_ms / 1000) == expected_s


@pytest.mark.slow
@given(st.text() | st.floats() | st.integers() | st.timedeltas())
def test_anything_is_a_duration_or_a_value_error(value: object) -> None:
    try:
        assert 0 <= seconds_of(value) <= SECONDS_MAX
    except ValueError as error:
        assert " is not a duration " in str(error)
