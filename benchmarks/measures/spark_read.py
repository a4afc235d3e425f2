"""Spark's batch read of the filled topic.

Spark has an environment of its own (`make spark`); without it the measurement is left out and the
table says so.
"""

from benchmarks.brokers import Kind
from benchmarks.measure import MB_PER_S, Metric, Sample, Stage, Target
from benchmarks.segments_source import KAFKA_SOURCE, sources

from .warm import SparkMeasure


class SparkRead(SparkMeasure):
    """A batch query that counts the records and sums the bytes of their values."""

    name = "spark_read"
    title = "Spark batch read"
    metrics = (Metric("rate", "batch read", MB_PER_S, "higher", Target("ratio", "≥", 1.0)),)

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One query.  Raises: NotAvailable, JobFailed, RuntimeError."""
        filling = stage.filled(kind)
        source = sources(stage.broker(kind), filling.topic.name)[KAFKA_SOURCE]
        answer = self.job("count", source=source)
        if answer["records"] != filling.record_count:
            raise RuntimeError(f"{answer['records']} of {filling.record_count} records were read")
        return {"rate": answer["value_bytes"] / answer["taken_s"]}
