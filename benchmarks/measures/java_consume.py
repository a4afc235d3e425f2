"""Kafka's Java consumer by assignment, without a group, through our one-file program."""

from benchmarks.brokers import Kind
from benchmarks.measure import MB_PER_S, Measure, Metric, Sample, Stage
from benchmarks.programs import run_java_file


class JavaConsume(Measure):
    """The whole filled topic, with the consumer's defaults."""

    name = "java_consume"
    title = "Java consumer by assignment, defaults"
    metrics = (Metric("rate", "bulk consume", MB_PER_S, "higher"),)

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One process that reads it from the beginning."""
        address, filling = stage.broker(kind).address, stage.filled(kind)
        return run_java_file(
            "BulkConsume.java", str(address), filling.topic.name, str(filling.record_count)
        )
