"""Batch jobs: write rows made by Spark, read topics back."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

Options = dict[str, str]
AT_THE_END = {"kafka.fetch.max.wait.ms": "20"}
"""Else each task waits for half a second: Spark asks for offsets behind a fetch at the end."""


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Rows whose key, value and headers all follow from their number."""
    return spark.range(count).selectExpr(
        "CAST(concat('key-', id % 1000) AS BINARY) AS key",
        "CAST(concat('value-', id) AS BINARY) AS value",
        "array(named_struct('key', 'number', 'value', CAST(CAST(id AS STRING) AS BINARY)),"
        " named_struct('key', 'source', 'value', CAST('spark' AS BINARY))) AS headers",
    )


def write(spark: SparkSession, *, servers: str, topic: str, count: int, options: Options) -> None:
    """Write `rows` to a topic."""
    (
        rows(spark, count)
        .write.format("kafka")
        .options(**options, includeHeaders="true")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .save()
    )


def load(spark: SparkSession, servers: str, options: Options) -> DataFrame:
    """A topic as a table, with headers."""
    return (
        spark.read.format("kafka")
        .options(**{**AT_THE_END, **options}, includeHeaders="true")
        .option("kafka.bootstrap.servers", servers)
        .load()
    )


def read(spark: SparkSession, *, servers: str, options: Options) -> list[dict[str, Any]]:
    """What was read of each partition: counts, offsets, check sums of all fields."""
    return summary(load(spark, servers, options))


def read_rows(spark: SparkSession, *, servers: str, options: Options) -> list[dict[str, Any]]:
    """Whole records, bytes as hexadecimal."""
    table = load(spark, servers, options).selectExpr(
        "topic",
        "partition",
        "offset",
        "unix_millis(timestamp) AS timestamp_ms",
        "timestampType AS timestamp_type",
        "hex(key) AS key",
        "hex(value) AS value",
        "transform(headers, header -> array(header.key, hex(header.value))) AS headers",
    )
    ordered = table.orderBy("topic", "partition", "offset")
    return [row.asDict(recursive=True) for row in ordered.collect()]


def summary(table: DataFrame) -> list[dict[str, Any]]:
    """One line for each partition of a table of records."""
    whole = f.expr(
        "concat_ws('|', CAST(key AS STRING), CAST(value AS STRING), array_join(transform("
        "headers, header -> concat(header.key, '=', CAST(header.value AS STRING))), ','))"
    )
    grouped = (
        table.withColumn("task", f.spark_partition_id())
        .groupBy("topic", "partition")
        .agg(
            f.count("*").alias("count"),
            f.sum("offset").alias("offset_sum"),
            f.min("offset").alias("first"),
            f.max("offset").alias("last"),
            f.sum(f.crc32(whole)).alias("crc_sum"),
            f.min(f.expr("unix_millis(timestamp)")).alias("timestamp_ms_min"),
            f.array_sort(f.collect_set("task")).alias("tasks"),
        )
        .orderBy("topic", "partition")
    )
    return [row.asDict() for row in grouped.collect()]
