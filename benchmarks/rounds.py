"""Run the measurements in alternating rounds: Kafka, Odradek, (floor,) Kafka, Odradek, …"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .brokers import Kind
from .busy import busy_cores
from .measure import Measure, NotAvailable, Sample
from .stage import RunStage


@dataclass(slots=True)
class Outcome:
    """All samples of one measurement, oldest first, and why there are none for somebody."""

    measure: Measure
    samples: dict[Kind, list[Sample]] = field(default_factory=dict)
    problems: dict[Kind, str] = field(default_factory=dict)
    took_s: float = 0.0

    def values(self, kind: Kind, key: str) -> list[float]:
        """One metric's values of one subject."""
        return [sample[key] for sample in self.samples.get(kind, [])]


def run(
    measures: Iterable[Measure], stage: RunStage, kinds: frozenset[Kind], say: Callable[[str], None]
) -> list[Outcome]:
    """Measure everything for these subjects; what fails is noted and the rest goes on."""
    outcomes = []
    for measure in measures:
        began = time.monotonic()
        outcome = Outcome(measure)
        with busy_cores() if measure.busy else contextlib.nullcontext():
            try:
                _run_rounds(outcome, stage, kinds, say)
            finally:
                measure.close()
        outcome.took_s = time.monotonic() - began
        outcomes.append(outcome)
    return outcomes


def _run_rounds(
    outcome: Outcome, stage: RunStage, kinds: frozenset[Kind], say: Callable[[str], None]
) -> None:
    measure = outcome.measure
    subjects = [kind for kind in measure.kinds if kind in kinds]
    for number in range(1 - measure.warm_ups, measure.rounds(stage.scale) + 1):
        for kind in subjects:
            if kind in outcome.problems:
                continue
            try:
                sample = measure.sample(stage, kind)
            except NotAvailable as missing:
                outcome.problems[kind] = str(missing)
            except Exception as failure:  # noqa: BLE001 - one broken measurement leaves the others
                outcome.problems[kind] = f"{type(failure).__name__}: {failure}"
                print(f"{measure.name} {kind}: {outcome.problems[kind]}", file=sys.stderr)
            else:
                if number > 0:
                    outcome.samples.setdefault(kind, []).append(sample)
                say(_line(measure, kind, number, sample))
            stage.settle()


def _line(measure: Measure, kind: Kind, number: int, sample: Sample) -> str:
    label = f"round {number}" if number > 0 else "warm-up"
    values = ", ".join(
        f"{metric.title} {metric.unit.show(sample[metric.key])} {metric.unit.name}"
        for metric in measure.metrics
    )
    return f"{measure.name:20} {label:8} {kind:8} {values}"
