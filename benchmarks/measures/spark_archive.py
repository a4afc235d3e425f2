"""The archive job beside Spark alone, which reads and writes the same rows without Kafka."""

from benchmarks.brokers import Kind
from benchmarks.measure import PER_S, Metric, Sample, Scale, Stage

from .warm import SparkMeasure

VALUE_SIZE_BYTES = 100
ROUNDS_MAX = 3


class SparkArchive(SparkMeasure):
    """A topic into Parquet files; the floor writes the rows of such an archive once more."""

    name = "spark_archive"
    title = "archive, once"
    metrics = (Metric("rate", "records into Parquet", PER_S, "higher"),)
    kinds = (Kind.KAFKA, Kind.ODRADEK, Kind.FLOOR)

    def rounds(self, scale: Scale) -> int:
        """Fewer: each writes everything."""
        return min(ROUNDS_MAX, scale.rounds)

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One archive.  Raises: NotAvailable, JobFailed, RuntimeError."""
        kept = self.home / "archive"
        if kind is Kind.FLOOR:
            answer = self.job("rewrite", archive=str(kept), to=str(stage.directory() / "again"))
        else:
            spread = stage.spread(kind, VALUE_SIZE_BYTES)
            address = stage.broker(kind).address
            servers = f"{address.host}:{address.port}"
            to = stage.directory() / "archive" if kept.exists() else kept
            answer = self.job("archive_once", servers=servers, topic=spread.topic, to=str(to))
            if answer["records"] != spread.record_count:
                raise RuntimeError(f"{answer['records']} of {spread.record_count} were archived")
        return {"rate": answer["records"] / answer["taken_s"]}
