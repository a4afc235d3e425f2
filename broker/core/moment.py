"""The time at which something is asked, on both clocks."""

from typing import NamedTuple


class Moment(NamedTuple):
    """Now."""

    now_ms: int
    """Monotonic: for timers."""
    wall_ms: int
    """Since the Unix epoch: for what is written down."""
