"""Spark jobs that make archives for the tests of the audit, whole or spoiled.

What is spoiled is said in SQL over a view `records`: the source topic as Spark's Kafka source
reads it.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from odradek.pipeline.documents import encode
from odradek.pipeline.files import Files
from odradek.pipeline.kafka_source import AT_THE_END
from odradek.pipeline.manifest import (
    ABOUT,
    COLUMNS,
    About,
    ArchivedFile,
    Commit,
    OffsetRange,
    commit_path,
)


def records(spark: SparkSession, servers: str, topic: str, query: str, isolation: str) -> DataFrame:
    """A topic, changed by a query."""
    source = (
        spark.read.format("kafka")
        .options(**AT_THE_END)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("kafka.isolation.level", isolation)
        .option("includeHeaders", "true")
        .load()
    )
    source.createOrReplaceTempView("records")
    return spark.sql(query)


def write_archive(
    spark: SparkSession,
    *,
    servers: str,
    topic: str,
    uri: str,
    ends: dict[str, int],
    query: str = "SELECT * FROM records",
    isolation: str = "read_uncommitted",
) -> None:
    """An archive of one commit, as the manifest's contract describes it."""
    files = Files(spark, uri)
    rows = records(spark, servers, topic, query, isolation).select(*COLUMNS)
    rows.write.parquet(files.absolute("staged"))
    written = [status for status in files.list("staged") if status.path.endswith(".parquet")]
    archived = []
    for status in written:
        path = f"topic={topic}/date=2026-01-01/{status.path.rpartition('/')[2]}"
        count = spark.read.parquet(files.absolute(status.path)).count()
        files.rename(status.path, path)
        archived.append(ArchivedFile(path, topic, count, status.size_bytes))
    files.delete("staged", recursive=True)
    ranges = tuple(OffsetRange(topic, int(key), 0, end) for key, end in ends.items())
    files.write(ABOUT, encode(About(isolation_level=isolation).to_json()))
    files.write(commit_path(0), encode(Commit(0, ranges, tuple(archived)).to_json()))


def checksums(spark: SparkSession, *, rows: list[dict[str, Any]]) -> list[int]:
    """The audit's checksums of records; bytes are given as hexadecimal."""
    from odradek.pipeline.audit_rows import CONTENT

    schema = (
        "number INT, key STRING, value STRING, timestamp_ms BIGINT,"
        " headers ARRAY<STRUCT<key: STRING, value: STRING>>"
    )
    table = spark.createDataFrame([(n, *row.values()) for n, row in enumerate(rows)], schema)
    whole = table.selectExpr(
        "number",
        "unhex(key) AS key",
        "unhex(value) AS value",
        "timestamp_millis(timestamp_ms) AS timestamp",
        "transform(headers, h -> struct(h.key AS key, unhex(h.value) AS value)) AS headers",
    )
    return [
        row.content
        for row in whole.selectExpr("number", f"{CONTENT} AS content").orderBy("number").collect()
    ]
