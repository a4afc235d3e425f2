"""What a measurement is: a name, its metrics, and one sample of one broker.

A module of `measures/` defines a subclass of `Measure` per measured thing; the list in
`measures/__init__.py` is what runs, in that order.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from .brokers import Kind, RunningBroker
from .certificates import Certificates
from .spread import Spread
from .topics import Filling

Better = Literal["higher", "lower"]
Sample = Mapping[str, float]
"""Metric key to value, in the metric's base unit."""

COMPARISONS: Final = {"<": operator.lt, "≤": operator.le, "≥": operator.ge}


@dataclass(frozen=True, slots=True)
class Unit:
    """How a value in base units (seconds, bytes, 1/s) is shown."""

    name: str
    scale: float
    digits: int

    def show(self, value: float) -> str:
        """The number alone."""
        return f"{value * self.scale:,.{self.digits}f}"


SECONDS: Final = Unit("s", 1.0, 3)
MICROSECONDS: Final = Unit("µs", 1e6, 0)
MEGABYTES: Final = Unit("MB", 1e-6, 1)
MB_PER_S: Final = Unit("MB/s", 1e-6, 0)
PER_S: Final = Unit("1/s", 1.0, 0)
CPU_S_PER_GB: Final = Unit("s/GB", 1.0, 2)
TIMES: Final = Unit("x", 1.0, 2)


@dataclass(frozen=True, slots=True)
class Target:
    """What a metric should reach; shown beside the result, never asserted."""

    of: Literal["ratio", "value"]
    comparison: Literal["<", "≤", "≥"]
    limit: float

    def met(self, *, value: float, ratio: float | None) -> bool | None:
        """Whether Odradek's value or ratio is within; None when there is nothing to compare."""
        compared = value if self.of == "value" else ratio
        return (
            None if compared is None else bool(COMPARISONS[self.comparison](compared, self.limit))
        )

    def show(self, unit: Unit) -> str:
        """For instance `≥ 1.2x` or `< 0.300 s`."""
        if self.of == "ratio":
            return f"{self.comparison} {self.limit:g}x"
        return f"{self.comparison} {self.limit * unit.scale:g} {unit.name}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a sample."""

    key: str
    title: str
    unit: Unit
    better: Better
    target: Target | None = None


CPU_WITH_TLS: Final = Metric(
    "cpu", "… CPU of the broker", CPU_S_PER_GB, "lower", Target("ratio", "≤", 2.0)
)
"""The rate with TLS is mostly the client's; what TLS costs the broker, its processor time tells."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    ready_rounds: int
    seconds: float
    idle_s: float
    load_bytes: int
    fill_bytes: int
    produce_records: int
    warm_up_records: int
    copy_bytes: int


FULL: Final = Scale(
    rounds=5,
    ready_rounds=10,
    seconds=4.0,
    idle_s=10.0,
    load_bytes=4_000_000_000,
    fill_bytes=512 << 20,
    produce_records=800_000,
    warm_up_records=100_000,
    copy_bytes=4_000_000_000,
)
QUICK: Final = Scale(
    rounds=3,
    ready_rounds=3,
    seconds=0.7,
    idle_s=1.0,
    load_bytes=500_000_000,
    fill_bytes=96 << 20,
    produce_records=100_000,
    warm_up_records=40_000,
    copy_bytes=512_000_000,
)


class NotAvailable(Exception):
    """The measurement cannot run here; the message says what is missing."""


class Stage(Protocol):
    """What a measurement may use."""

    @property
    def scale(self) -> Scale:
        """How much work to do."""

    @property
    def certificates(self) -> Certificates:
        """Those of the shared brokers, which also listen for TLS."""

    def broker(self, kind: Kind) -> RunningBroker:
        """The broker of this kind that all measurements share, started when first asked for."""

    def filled(self, kind: Kind) -> Filling:
        """A topic of the shared broker with 1 KiB records in batches of 16 KiB."""

    def spread(self, kind: Kind, value_size_bytes: int) -> Spread:
        """A topic of the shared broker with as many bytes, in four partitions, with keys."""

    def new_topic(self, kind: Kind) -> str:
        """A fresh topic of the shared broker, deleted after the sample."""

    def directory(self) -> Path:
        """A fresh empty directory, removed after the sample."""


class Measure(ABC):
    """One measured thing."""

    name: str
    """For `--only`."""
    title: str
    metrics: tuple[Metric, ...]
    kinds: tuple[Kind, ...] = (Kind.KAFKA, Kind.ODRADEK)
    """Whom to sample in each round, in this order."""
    warm_ups: int = 0
    """Rounds that are run first and not counted."""
    busy: bool = False
    """Whether a niced busy loop per core keeps the processor awake."""

    def rounds(self, scale: Scale) -> int:
        """How many rounds are counted."""
        return scale.rounds

    @abstractmethod
    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """Measure once.  Raises: NotAvailable, and whatever goes wrong with broker or client."""

    def close(self) -> None:  # noqa: B027 - most measurements keep nothing
        """End what the measurement kept between its samples."""
