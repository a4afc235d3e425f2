"""Streaming jobs: topics into Parquet files and into other topics, with a checkpoint."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tests.spark.jobs.batch import AT_THE_END, Options, summary

_running: dict[str, StreamingQuery] = {}


def source(spark: SparkSession, servers: str, options: Options) -> DataFrame:
    """A topic as a stream, from its first record."""
    defaults = {"startingOffsets": "earliest", "includeHeaders": "true", **AT_THE_END}
    return (
        spark.readStream.format("kafka")
        .options(**{**defaults, **options})
        .option("kafka.bootstrap.servers", servers)
        .load()
    )


def to_parquet(stream: DataFrame, directory: str) -> DataStreamWriter:
    """Into Parquet files in `directory`/table, with the checkpoint beside them."""
    return (
        stream.writeStream.format("parquet")
        .option("path", str(Path(directory, "table")))
        .option("checkpointLocation", str(Path(directory, "checkpoint")))
    )


def archive_available(
    spark: SparkSession, *, servers: str, options: Options, directory: str
) -> list[int]:
    """Archive what there is (trigger availableNow); rows of each batch that had any."""
    writer = to_parquet(source(spark, servers, options), directory)
    return _finish(writer.trigger(availableNow=True).start())


def archive_start(
    spark: SparkSession, *, servers: str, options: Options, directory: str, every: str
) -> None:
    """Begin to archive with a processing-time trigger."""
    writer = to_parquet(source(spark, servers, options), directory)
    _running[directory] = writer.trigger(processingTime=every).start()


def archive_catch_up(_spark: SparkSession, *, directory: str) -> None:
    """Wait until all that was in the topic when this was called is in the files."""
    _running[directory].processAllAvailable()


def archive_stop(_spark: SparkSession, *, directory: str) -> None:
    """End what `archive_start` began."""
    _running.pop(directory).stop()


def archived(spark: SparkSession, *, directory: str) -> list[dict[str, Any]]:
    """What the files hold."""
    return summary(spark.read.parquet(str(Path(directory, "table"))))


def copy_available(
    spark: SparkSession, *, servers: str, options: Options, topic: str, directory: str
) -> list[int]:
    """Copy what there is into another topic; rows of each batch that had any."""
    stream = source(spark, servers, options).select("key", "value", "headers")
    writer = (
        stream.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("includeHeaders", "true")
        .option("checkpointLocation", str(Path(directory, "checkpoint")))
    )
    return _finish(writer.trigger(availableNow=True).start())


def _finish(query: StreamingQuery) -> list[int]:
    query.awaitTermination()
    return [
        progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]
    ]
