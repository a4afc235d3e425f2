"""The time of a request, on both clocks."""

from typing import NamedTuple


class Moment(NamedTuple):
    """The current time."""

    now_ms: int
    """Monotonic, for timers."""
    wall_ms: int
    """Since the Unix epoch, for what is written to disk."""
