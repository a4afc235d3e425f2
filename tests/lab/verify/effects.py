"""Whether what was done to a cluster took effect: pure, over the events of one run."""

from collections.abc import Sequence

from .events import Event


def missing(events: Sequence[Event]) -> list[str]:
    """What the faults in the history did not cause; [] if all took effect."""
    return []
