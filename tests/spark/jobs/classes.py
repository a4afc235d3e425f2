"""Have Spark's JVM load what the tests need: `python -m tests.spark.jobs.classes OPTIONS`.

With -XX:ArchiveClassesAtExit among OPTIONS the JVM writes these classes down when it ends.
"""

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.environment import small_settings


def session(options: str) -> SparkSession:
    """A session as the tests have it, without a connector: its classes are never written down."""
    builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
    for name, value in small_settings(options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def same(batches: Iterator[Any]) -> Iterator[Any]:
    """What a Python worker does to rows."""
    yield from batches


def batches(spark: SparkSession, folder: str) -> None:
    """Files, shuffles, JSON, Python workers."""
    rows = spark.range(1000).selectExpr(
        "id % 3 AS part",
        "encode(id, 'utf-8') AS value",
        "array(named_struct('key', 'k', 'value', encode(id, 'utf-8'))) AS headers",
        "timestamp_millis(id) AS timestamp",
        "from_json(concat('{\"n\": ', id, '}'), 'n INT').n AS n",
    )
    rows.repartition("part").sortWithinPartitions("n").write.partitionBy("part").parquet(folder)
    read = spark.read.parquet(folder)
    read.unionByName(rows).groupBy("value", "headers").agg(f.count("*"), f.max("n")).count()
    read.mapInArrow(same, read.schema).collect()


def stream(spark: SparkSession, folder: str) -> None:
    """Windows of a stream into files, batch by batch."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.parquet(f"{folder}/{number}")

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    sums = rows.withWatermark("timestamp", "1 minute").groupBy(f.window("timestamp", "1 minute"))
    query = sums.count().writeStream.outputMode("append").foreachBatch(write)
    running = query.option("checkpointLocation", f"{folder}/checkpoint").start()
    while len(running.recentProgress) < 3:
        running.awaitTermination(1)
    running.stop()


def main(options: str) -> None:
    """Return when the JVM has ended."""
    with tempfile.TemporaryDirectory() as folder:
        spark = session(options)
        gateway: Any = spark.sparkContext._gateway
        batches(spark, f"{folder}/table")
        stream(spark, f"{folder}/stream")
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])
