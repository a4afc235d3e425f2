"""Times as users write and read them."""

from datetime import UTC, datetime
from typing import Final

from .errors import PipelineError

TIME_MS_MAX: Final = (2**63 - 1) // 1000
"""The latest time that Spark can represent: it counts in microseconds."""


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970, from such a number or an ISO 8601 time (in UTC without a zone).

    Raises: PipelineError.
    """
    if text.removeprefix("-").isdecimal():
        if abs(int(text)) > TIME_MS_MAX:
            raise PipelineError(
                f"{option} {text} is more milliseconds than Spark can tell: are they microseconds,"
                " or nanoseconds?"
            )
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{option} {text!r} is no time: give milliseconds since 1970, or 2026-11-22T03:00:00Z"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def iso(time_ms: int) -> str:
    """A time in ISO 8601, in UTC with milliseconds."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
