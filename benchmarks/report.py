"""Medians, their spread and their ratio: as a table, and as JSON with every sample."""

import datetime
import os
import platform
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .brokers import Kind
from .measure import Metric
from .rounds import Outcome

Json = dict[str, "Json"] | list["Json"] | str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of some values and the least and greatest of them."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary | None":
        """None when there are no values."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one measurement, for everybody who was measured."""

    outcome: Outcome
    metric: Metric
    kafka: Summary | None
    odradek: Summary | None
    floor: Summary | None

    @property
    def ratio(self) -> float | None:
        """Odradek's median by Kafka's."""
        if self.kafka is None or self.odradek is None or not self.kafka.median:
            return None
        return self.odradek.median / self.kafka.median

    @property
    def target_met(self) -> bool | None:
        """None without a target or without the numbers for it."""
        if self.metric.target is None or self.odradek is None:
            return None
        return self.metric.target.met(value=self.odradek.median, ratio=self.ratio)


def rows(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """One row per metric, in the order of measuring."""
    for outcome in outcomes:
        for metric in outcome.measure.metrics:
            kafka, odradek, floor = (
                Summary.of(outcome.values(kind, metric.key))
                for kind in (Kind.KAFKA, Kind.ODRADEK, Kind.FLOOR)
            )
            yield Row(outcome, metric, kafka, odradek, floor)


HEADINGS = ("", "unit", "Apache Kafka", "Odradek", "ratio", "target", "floor")
"""Kafka is 4.3.1 unless a title says which."""


def table(outcomes: Sequence[Outcome]) -> str:
    """Text for a terminal; the ratio is Odradek by Kafka."""
    lines: list[tuple[str, ...]] = [HEADINGS]
    shown = None
    for row in rows(outcomes):
        if row.outcome is not shown:
            shown = row.outcome
            lines.append((row.outcome.measure.title,))
        lines.append(_cells(row))
        problems = shown.problems.items()
        if row.metric is shown.measure.metrics[-1]:
            lines.extend((f"  {kind}: {text.splitlines()[0]}",) for kind, text in problems)
    widths = [max(len(line[i]) for line in lines if len(line) > 1) for i in range(len(HEADINGS))]
    text = []
    for line in lines:
        if len(line) == 1:
            text.append(line[0])
            continue
        cells = [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
        cells += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def _cells(row: Row) -> tuple[str, ...]:
    unit = row.metric.unit
    met = {True: " met", False: " MISSED", None: ""}[row.target_met]
    target = row.metric.target.show(unit) + met if row.metric.target else ""
    ratio = f"{row.ratio:.2f}x" if row.ratio is not None else ""
    brokers = [_spread(row.kafka, row.metric), _spread(row.odradek, row.metric)]
    floor = unit.show(row.floor.median) if row.floor else ""
    return (f"  {row.metric.title}", unit.name, *brokers, ratio, target, floor)


def _spread(summary: Summary | None, metric: Metric) -> str:
    if summary is None:
        return "—"
    show = metric.unit.show
    return f"{show(summary.median)} ({show(summary.least)}…{show(summary.greatest)})"


def as_json(outcomes: Sequence[Outcome], *, quick: bool, took_s: float) -> Json:
    """Everything that was measured, in base units."""
    return {
        "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "quick": quick,
        "took_s": round(took_s, 1),
        "results": [_row_json(row) for row in rows(outcomes)],
        "problems": {
            outcome.measure.name: {kind.value: text for kind, text in outcome.problems.items()}
            for outcome in outcomes
            if outcome.problems
        },
    }


def _row_json(row: Row) -> Json:
    kinds = (Kind.KAFKA, Kind.ODRADEK, Kind.FLOOR)
    samples = {kind: row.outcome.values(kind, row.metric.key) for kind in kinds}
    target = row.metric.target
    return {
        "measure": row.outcome.measure.name,
        "metric": row.metric.key,
        "better": row.metric.better,
        "median": {k.value: statistics.median(v) for k, v in samples.items() if v},
        "samples": {k.value: list(v) for k, v in samples.items() if v},
        "ratio": row.ratio,
        "target": target.show(row.metric.unit) if target else None,
        "target_met": row.target_met,
    }


def machine() -> dict[str, Json]:
    """What the numbers were measured on."""
    model = ""
    with open("/proc/cpuinfo") as cpuinfo:
        model = next((line.split(":")[1].strip() for line in cpuinfo if "model name" in line), "")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": java.splitlines()[0] if java else "",
    }
