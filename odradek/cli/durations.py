"""Lengths of time as users write and read them."""

import re
from datetime import timedelta
from typing import Final

import click

ISO: Final = re.compile(
    r"P(?=[\dT])(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
SHORT: Final = re.compile(
    r"(?=\d)(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?"
)
MILLISECOND: Final = timedelta(milliseconds=1)


def parse_duration(text: str) -> timedelta:
    """Parse 15m or 2d12h, or an ISO 8601 duration such as P2DT3H4M5.5S.

    Raises: ValueError with a sentence.
    """
    found = ISO.fullmatch(text.upper()) or SHORT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration like 15m, 2d12h or P2DT12H")
    try:
        return timedelta(**{unit: float(n) for unit, n in found.groupdict().items() if n})
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def parse_duration_ms(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """A click callback for a duration; the result is in milliseconds."""
    try:
        return None if text is None else parse_duration(text) // MILLISECOND
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def duration_text(duration_ms: int) -> str:
    """A duration with its two largest units: 2d12h, 15m0s, 7s."""
    seconds = max(duration_ms, 0) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days}d{hours % 24}h"
    if hours:
        return f"{hours}h{minutes % 60}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"
