"""The segment files' data source beside Spark's Kafka source: same records, same session."""

import os
from typing import Any

from benchmarks.brokers import Kind
from benchmarks.measure import CPU_S_PER_GB, PER_S, TIMES, Metric, Sample, Stage, Target
from benchmarks.segments_source import KAFKA_SOURCE, SEGMENTS, cpu_s, sources, wait_until_equal

from .warm import SparkMeasure


class SparkSegments(SparkMeasure):
    """All columns of all rows, by the one source and by the other, in turn."""

    metrics = (
        Metric("kafka", "Kafka source", PER_S, "higher"),
        Metric("segments", "segment files", PER_S, "higher"),
        Metric("times", "segment files / Kafka source", TIMES, "higher", Target("value", "≥", 1.5)),
        Metric("kafka_cpu", "CPU time, Kafka source and broker", CPU_S_PER_GB, "lower"),
        Metric("segments_cpu", "CPU time, segment files", CPU_S_PER_GB, "lower"),
    )

    def __init__(self, value_size_bytes: int, name: str, title: str) -> None:
        super().__init__()
        self.name = name
        self.title = title
        self._value_size_bytes = value_size_bytes
        self._equal: set[Kind] = set()

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One read by each source.  Raises: NotAvailable, JobFailed."""
        spread = stage.spread(kind, self._value_size_bytes)
        broker = stage.broker(kind)
        asked = sources(broker, spread.topic)
        if kind not in self._equal:
            wait_until_equal(self.job, asked)
            self._equal.add(kind)
        size_gb = spread.record_count * spread.value_size_bytes / 1e9
        kafka_s, kafka_cpu_s = self._read(asked[KAFKA_SOURCE])
        segments_s, segments_cpu_s = self._read(asked[SEGMENTS])
        return {
            "kafka": spread.record_count / kafka_s,
            "segments": spread.record_count / segments_s,
            "times": kafka_s / segments_s,
            "kafka_cpu": kafka_cpu_s / size_gb,
            "segments_cpu": segments_cpu_s / size_gb,
        }

    def _read(self, source: dict[str, Any]) -> tuple[float, float]:
        """How long one read takes, and the CPU time of all that was started here."""
        before_s = cpu_s(os.getpid())
        taken_s = self.job("read", source=source)
        return taken_s, cpu_s(os.getpid()) - before_s
