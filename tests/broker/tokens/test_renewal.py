"""When tokens are renewed, and how often a request is repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.tokens.renewal import AGAIN_AFTER_MS, Retries, Window

DEFAULT = Window(0.8, 0.05, 60_000, 300_000)
HOUR_MS = 3_600_000
NOW_MS = 1_900_000_000_000


def due(window: Window, lasts_ms: int, *, age_ms: int = 0, random: float = 0.0) -> int:
    """In how many milliseconds a token is renewed whose whole life is `lasts_ms`."""
    issued_ms = NOW_MS - age_ms
    return window.renew_at_ms(issued_ms, issued_ms + lasts_ms, NOW_MS, random) - NOW_MS


@pytest.mark.parametrize(
    ("lasts_ms", "age_ms", "expected_ms"),
    [
        (HOUR_MS, 0, 2_880_000),
        (HOUR_MS, 1_000_000, 1_880_000),  # its age counts
        (1_200_000, 0, 900_000),  # 960,000, but for the rest of its life
        (HOUR_MS, 2_850_000, 60_000),  # 30,000, but for the least age
        (350_000, 0, 280_000),  # too short for both
        (HOUR_MS, 3_590_000, 8_000),  # the rest of its life is
        (1_000, 0, 1_000),
        (10, 0, 1_000),
        (1_000, 1_000, AGAIN_AFTER_MS),
    ],
)
def test_when_a_token_is_renewed(lasts_ms: int, age_ms: int, expected_ms: int) -> None:
    assert due(DEFAULT, lasts_ms, age_ms=age_ms) == expected_ms


def test_not_all_brokers_renew_at_once() -> None:
    assert due(DEFAULT, HOUR_MS, random=1.0) == 3_060_000
    assert due(DEFAULT._replace(factor=1.0, rest_ms_min=0), HOUR_MS, random=1.0) == HOUR_MS


def test_without_a_time_of_issue_life_begins_now() -> None:
    assert DEFAULT.renew_at_ms(None, NOW_MS + HOUR_MS, NOW_MS, 0.0) == NOW_MS + 2_880_000


@given(
    st.builds(
        Window,
        st.floats(0.5, 1.0),
        st.floats(0.0, 0.25),
        st.integers(0, 900_000),
        st.integers(0, 3_600_000),
    ),
    st.integers(1_000, 10**9),
    st.integers(0, 10**9),
    st.floats(0, 1),
)
def test_a_token_is_renewed_before_it_ends(
    window: Window, rest_ms: int, age_ms: int, random: float
) -> None:
    found = due(window, age_ms + rest_ms, age_ms=age_ms, random=random)
    assert 1_000 <= found <= rest_ms
    if window.age_ms_min + window.rest_ms_min <= rest_ms:
        assert min(window.age_ms_min, rest_ms) <= found
        assert found <= max(1_000, rest_ms - window.rest_ms_min)


def test_pauses_grow_until_the_time_is_over() -> None:
    retries, spent_ms = Retries(100, 1_000), 0
    pauses: list[int] = []
    while (pause_ms := retries.pause_after_ms(len(pauses) + 1, spent_ms)) is not None:
        pauses.append(pause_ms)
        spent_ms += pause_ms
    assert pauses == [100, 200, 400, 300]
    assert Retries(100, 0).pause_after_ms(1, 0) is None
    assert Retries(100, 10_000).pause_after_ms(1, 10_001) is None
    assert Retries(1, 1 << 62).pause_after_ms(10_000, 0) == 1 << 20
