"""Lengths of time in fixtures and in the admin API: "250ms", "60s", "5m", seconds, a timedelta."""

import math
import re
from datetime import timedelta
from typing import Final

Duration = str | int | float | timedelta

SECONDS_MAX: Final = 10 * 365 * 86_400
_TEXT: Final = re.compile(r"(-?\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_UNIT_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(duration: object) -> float:
    """The seconds of a duration that is not negative.  Raises: ValueError with a sentence."""
    seconds = _seconds(duration)
    if seconds is None:
        raise ValueError(f"{duration!r} is not a duration such as '250ms', '60s', '5m' or 1.5")
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{duration!r} is not a duration from 0 to ten years")
    return seconds


def _seconds(duration: object) -> float | None:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, str):
        found = _TEXT.fullmatch(duration.strip())
        return None if found is None else float(found[1]) * _UNIT_S[found[2]]
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        return None
    seconds = min(duration, SECONDS_MAX + 1)  # first, as a huge int is no float
    return None if math.isnan(seconds) else seconds
