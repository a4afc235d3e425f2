"""Writes records to staged Parquet files with Spark, and checks what can be read back."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

from .archive_commits import StagedFile
from .errors import PipelineError
from .files import Files
from .manifest import COLUMNS, OffsetRange
from .offsets import TopicPartition
from .spark_types import DataFrame, SparkSession

_SECONDS: Final = "unix_seconds(timestamp)"
MADE: Final = {
    "date": f"date_from_unix_date(int(({_SECONDS} - pmod({_SECONDS}, 86400)) div 86400))",
    "hour": f"int(pmod({_SECONDS}, 86400) div 3600)",
}
"""Partition columns in UTC, because spark.sql.session.timeZone may change between runs."""


def only(frame: DataFrame, asked: Sequence[OffsetRange], parts: Sequence[OffsetRange]) -> DataFrame:
    """A batch restricted to `parts`: without the offsets that are already archived."""
    if list(asked) == list(parts):
        return frame
    from pyspark.sql import functions as f

    ranges = f.lit(False)
    for part in parts:
        ranges |= (
            (f.col("topic") == part.topic)
            & (f.col("partition") == part.partition)
            & (f.col("offset") >= part.start_offset)
        )
    return frame.where(ranges)


def write_records(frame: DataFrame, target: str, partition_by: Sequence[str]) -> None:
    """Write Parquet files in which the records of each partition are in order."""
    from pyspark.sql import functions as f

    made = [f.expr(MADE[name]).alias(name) for name in partition_by if name in MADE]
    columns = [*COLUMNS, *made]
    ordered = dict.fromkeys((*partition_by, "partition", "offset"))
    rows = frame.select(*columns).sortWithinPartitions(*ordered)
    rows.write.mode("append").partitionBy(*partition_by).parquet(target)


def staged_files(
    spark: SparkSession, files: Files, folder: str, parts: Sequence[OffsetRange] | None
) -> list[StagedFile]:
    """The files that Spark has written, read back.

    Raises: PipelineError if an offset is outside of `parts`, or is there twice.
    """
    found = {
        status.path: status.size_bytes
        for status in files.list(folder, recursive=True)
        if status.path.endswith(".parquet")
    }
    if not found:
        return []
    offsets = _offsets(spark, files.absolute(folder))
    rows = _counted(offsets)
    if parts is not None:
        _check_asked(rows, parts)
        _check_once(offsets)
    held: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        path = folder + unquote(row["file"]).rpartition(folder)[2]
        held.setdefault((path, row["topic"]), []).append(row)
    return [
        StagedFile(
            path,
            topic,
            sum(row["records"] for row in partitions),
            found[path],
            {row["partition"]: (row["first"], row["last"] + 1) for row in partitions},
        )
        for (path, topic), partitions in sorted(held.items())
    ]


def check_complete(
    batch: DataFrame, staged: Sequence[StagedFile], parts: Sequence[OffsetRange], place: str
) -> None:
    """Check that all records that Spark read are in the staged files.  Raises: PipelineError.

    An executor that has a disk of its own at the folder's path writes files that nobody finds, and
    Spark does not notice.
    """
    found = sum(file.records for file in staged)
    if found == sum(part.end_offset - part.start_offset for part in parts):
        return
    # Transactions and compaction leave gaps, too: only reading Kafka again can tell.
    expected = batch.count()
    if found < expected:
        raise PipelineError(
            f"of {expected} records that Spark wrote only {found} are in {place}: its executors do "
            "not share the folder with the driver; give one that is the same on every machine "
            "(hdfs://…, s3a://…, a shared disk), the batch was not archived"
        )


def _offsets(spark: SparkSession, target: str) -> DataFrame:
    # With a schema, Spark does not guess the types of partition columns.
    return spark.read.schema("topic string, partition int, offset bigint").parquet(target)


def _counted(offsets: DataFrame) -> list[Any]:
    from pyspark.sql import functions as f

    return list(
        offsets.groupBy(f.input_file_name().alias("file"), "topic", "partition")
        .agg(
            f.count("offset").alias("records"),
            f.min("offset").alias("first"),
            f.max("offset").alias("last"),
        )
        .collect()
    )


def _check_asked(rows: Sequence[Any], parts: Sequence[OffsetRange]) -> None:
    by_partition = {part.topic_partition: part for part in parts}
    for row in rows:
        key = TopicPartition(row["topic"], row["partition"])
        part = by_partition.get(key)
        if part is None or row["first"] < part.start_offset or row["last"] >= part.end_offset:
            raise PipelineError(
                f"Spark wrote offsets {row['first']} to {row['last']} of {key}, which "
                f"were not asked for ({part}): the batch was not archived; start the job again"
            )


def _check_once(offsets: DataFrame) -> None:
    """Check that no offset is there twice.  Raises: PipelineError.

    More records than offsets would not show it in a range with gaps, which transactions and
    compaction leave. One bit for each of 64 offsets costs a small part of grouping by offset.
    """
    from pyspark.sql import functions as f

    bit = "shiftleft(1L, cast(offset % 64 AS int))"
    twice = (
        offsets.groupBy("topic", "partition", f.expr("offset div 64"))
        .agg(f.count("offset").alias("records"), f.expr(f"bit_count(bit_or({bit}))").alias("held"))
        .where("records > held")
        .first()
    )
    if twice is not None:
        key = TopicPartition(twice["topic"], twice["partition"])
        raise PipelineError(
            f"Spark wrote offsets of {key} twice: the batch was not archived; start the job again"
        )
