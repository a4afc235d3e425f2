"""What a session of Spark does with segment files (worker.py calls these)."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek.pipeline import register
from odradek.pipeline.kafka_source import AT_THE_END

Options = dict[str, str]


def segments(spark: SparkSession, data_dir: str, options: Options) -> DataFrame:
    """A data directory as a table."""
    return spark.read.format("odradek").options(**options).load(data_dir)


def kafka(spark: SparkSession, servers: str, options: Options) -> DataFrame:
    """The same by a broker."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.options(**AT_THE_END).options(**options).load()


def differences(
    spark: SparkSession, *, servers: str, data_dir: str, options: Options, more: Options
) -> dict[str, Any]:
    """Rows of each that the other has not; `more`: options that only the segments need."""
    ours = segments(spark, data_dir, {**options, **more})
    theirs = kafka(spark, servers, options)
    both = ours.withColumn("ours", f.lit(1)).withColumn("theirs", f.lit(0))
    both = both.union(theirs.withColumn("ours", f.lit(0)).withColumn("theirs", f.lit(1)))
    counts = (f.sum(side).alias(side) for side in ("ours", "theirs"))
    rows = both.groupBy(*ours.columns).agg(*counts)
    totals = rows.selectExpr(
        "sum(ours) AS rows",
        "sum(greatest(theirs - ours, 0)) AS missing",
        "sum(greatest(ours - theirs, 0)) AS added",
    )
    return {
        "schemas": [frame.dtypes for frame in (ours, theirs)],
        **totals.collect()[0].asDict(),
    }


def registered(spark: SparkSession, *, data_dir: str, options: Options) -> int:
    """Count rows through the class that a session was told of by hand."""
    register(spark)
    return int(segments(spark, data_dir, options).count())


def streamed(spark: SparkSession, *, data_dir: str) -> None:
    """Stream segment files, which is refused."""
    frame = spark.readStream.format("odradek").option("topics", "plain").load(data_dir)
    frame.writeStream.format("noop").start().awaitTermination()


def rows(spark: SparkSession, *, data_dir: str, options: Options) -> list[dict[str, Any]]:
    """Some columns of all rows."""
    table = segments(spark, data_dir, options)
    return [row.asDict() for row in table.drop("key", "value", "headers", "timestamp").collect()]


def partitions(spark: SparkSession, *, data_dir: str, options: Options) -> int:
    """How many tasks a read has."""
    return int(segments(spark, data_dir, options).rdd.getNumPartitions())
