"""What a warm session of Spark does when it is measured.  Each job takes its own time."""

import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.archive import DEFAULTS, ArchiveJob, archive
from odradek.pipeline.archive_writing import write_records
from odradek.pipeline.files import Files
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.manifest import About, Archive
from odradek.pipeline.session import SparkOptions

Source = dict[str, Any]


def read(spark: SparkSession, *, source: Source) -> float:
    """Seconds to make all rows and throw them away."""
    began = time.perf_counter()
    _table(spark, source).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def count(spark: SparkSession, *, source: Source) -> dict[str, Any]:
    """A query that needs no more than the records and the bytes of their values, planning too."""
    table = _table(spark, source)
    began = time.perf_counter()
    value_bytes, records = table.selectExpr("sum(length(value))", "count(*)").collect()[0]
    taken_s = time.perf_counter() - began
    return {"records": records, "value_bytes": value_bytes, "taken_s": taken_s}


def check(spark: SparkSession, *, source: Source) -> dict[str, Any]:
    """What has to be the same for both sources."""
    sums = _table(spark, source).selectExpr(
        "count(*) AS records",
        "sum(length(value)) AS value_bytes",
        "sum(offset) AS offsets",
        "sum(crc32(key)) AS keys",
        "sum(crc32(value)) AS values",
        # By the rest alone: five million times of this decade are more than a long.
        "sum(unix_millis(timestamp) % 2147483647) AS times",
    )
    result: dict[str, Any] = sums.collect()[0].asDict()
    return result


def _table(spark: SparkSession, source: Source) -> DataFrame:
    return spark.read.format(source["format"]).options(**source["options"]).load(source["path"])


def archive_once(spark: SparkSession, *, servers: str, topic: str, to: str) -> dict[str, Any]:
    """A topic into a new archive, as `odradek pipeline archive --once` does it."""
    options = SparkOptions(master=spark.sparkContext.master)
    began = time.perf_counter()
    done = archive(ArchiveJob(to=to, topics=[topic], once=True), options, Kafka(servers))
    return {"records": done.records, "taken_s": time.perf_counter() - began}


def rewrite(spark: SparkSession, *, archive: str, to: str) -> dict[str, Any]:
    """The rows of an archive into files of the same order and folders: Spark's part of it."""
    for name, value in DEFAULTS.items():
        spark.conf.set(name, value)
    rows = Archive(Files(spark, archive)).read(spark)
    began = time.perf_counter()
    write_records(rows, to, About().partition_by)
    taken_s = time.perf_counter() - began
    return {"records": rows.count(), "taken_s": taken_s}
