"""librdkafka's consumer by assignment, through confluent-kafka."""

from benchmarks.brokers import Kind
from benchmarks.measure import MB_PER_S, Measure, Metric, Sample, Stage
from benchmarks.programs import run_python


class LibrdkafkaConsume(Measure):
    """The whole filled topic."""

    name = "librdkafka_consume"
    title = "librdkafka consumer by assignment"
    metrics = (Metric("rate", "bulk consume", MB_PER_S, "higher"),)

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One process that reads it from the beginning."""
        address, filling = stage.broker(kind).address, stage.filled(kind)
        return run_python(
            "librdkafka_consume",
            *("--address", str(address)),
            *("--topic", filling.topic.name),
            *("--records", str(filling.record_count)),
        )
