"""All that a broker counts and measures, in one place: an exporter needs no other.

Counts rise where something happens. A gauge is a function, called only when somebody reads it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from .counters import Counters
from .requests import RequestMetrics

Gauge = Callable[[], int]
NO_LABELS: Final[Mapping[str, str]] = {}


class Sample(NamedTuple):
    """One value, as of now."""

    name: str
    labels: Mapping[str, str]
    value: int
    is_count: bool
    """A count only rises, and begins at zero with the broker."""


class Metrics:
    """The metrics of one broker."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.requests = RequestMetrics()
        self._gauges: dict[str, Gauge] = {}

    def add_gauges(self, gauges: Mapping[str, Gauge]) -> None:
        """Have these read, too.  A name may be added once."""
        twice = gauges.keys() & self._gauges.keys()
        assert not twice, twice
        self._gauges.update(gauges)

    def read(self) -> Iterator[Sample]:
        """Everything."""
        for name, count in self.counters.all().items():
            yield Sample(name, NO_LABELS, count, is_count=True)
        for name, api, count in self.requests.read():
            yield Sample(name, {"api": api}, count, is_count=True)
        for name, gauge in self._gauges.items():
            yield Sample(name, NO_LABELS, gauge(), is_count=False)
