"""Where a broker is held against limits: its files, its starts and ends, and what was found."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .brokers import Kind, RunningBroker, start_kafka, start_odradek


@dataclass(frozen=True, slots=True)
class Finding:
    """One number beside its limit."""

    name: str
    value: float
    unit: str
    limit: float
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether it is below the limit."""
        return self.value < self.limit

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        line = f"{self.name:58} {self.value:9.3f} {self.unit:4} < {self.limit:g} {verdict:7}"
        return f"{line} {self.note}".rstrip()


class Ground:
    """Where the broker under test keeps its files from one start to the next."""

    def __init__(self, kind: Kind, directory: Path) -> None:
        self.kind = kind
        self.directory = directory

    @contextlib.contextmanager
    def broker(
        self, *, env: Mapping[str, str] | None = None, crash: bool = False
    ) -> Iterator[RunningBroker]:
        """A started broker, at the end stopped or killed."""
        start = start_kafka if self.kind is Kind.KAFKA else start_odradek
        broker = start(self.directory, env=None if env is None else {**os.environ, **env})
        try:
            yield broker
        finally:
            broker.kill() if crash else broker.stop()

    def restart_s(self) -> float:
        """Seconds from exec to the ready line, on the files that are there."""
        with self.broker() as broker:
            return broker.ready_s
