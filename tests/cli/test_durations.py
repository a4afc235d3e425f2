"""Durations as they are typed and as they are shown."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.durations import MILLISECOND, duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("PT15M", timedelta(minutes=15)),
        ("P2D", timedelta(days=2)),
        ("P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
        ("PT0S", timedelta(0)),
        ("pt1h", timedelta(hours=1)),
    ],
)
def test_durations(text: str, meant: timedelta) -> None:
    assert parse_duration(text) == meant


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "15M", "PT-1H", "-PT1H", "P1Y", "PT1M1H", "PT1.5H", "PT1H "]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_endless_durations_are_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration("P" + "9" * 30 + "D")


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (timedelta(milliseconds=-5), "0s"),
        (timedelta(milliseconds=999), "0s"),
        (timedelta(seconds=7), "7s"),
        (timedelta(minutes=15), "15m0s"),
        (timedelta(hours=2, minutes=5, seconds=59), "2h5m"),
        (timedelta(days=3, hours=1, minutes=59), "3d1h"),
    ],
)
def test_what_is_shown(duration: timedelta, shown: str) -> None:
    assert duration_text(duration // MILLISECOND) == shown


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_what_is_shown_can_be_typed(duration: timedelta) -> None:
    typed = parse_duration(duration_text(duration // MILLISECOND))
    assert timedelta(0) <= duration - typed < max(timedelta(seconds=1), duration / 24)
