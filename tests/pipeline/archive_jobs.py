"""Jobs of the tests' warm Spark: an archive against Spark's Kafka source."""

import json
import os
import re
import shutil
import signal
import threading
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka import KafkaProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit, when

from odradek.pipeline.archive import ArchiveJob, archive, claim
from odradek.pipeline.archive_commits import begin
from odradek.pipeline.archive_writing import staged_files, write_records
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.files import Files
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.kafka_source import AT_THE_END
from odradek.pipeline.manifest import (
    COLUMNS,
    COMMITS,
    About,
    Archive,
    Commit,
    OffsetRange,
    commit_path,
)
from odradek.pipeline.session import SparkOptions
from tests.pipeline.harness import WAIT_TIMEOUT_S
from tests.support.waiting import until


def differences(spark: SparkSession, *, servers: str, topic: str, directory: str) -> dict[str, Any]:
    """How many rows only one of the readers sees, also if it sees them twice."""
    kafka = (
        spark.read.format("kafka")
        .options(**AT_THE_END)
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .select(*COLUMNS)
    )
    archive = Archive(Files(spark, directory)).read(spark, [topic])
    # With no word about schemas or manifests, as anybody would.
    folder = spark.read.parquet(directory).where(f"topic = '{topic}'").select(*COLUMNS)
    sides = {"k": kafka, "a": archive, "f": folder}
    tagged = [rows.withColumn("side", lit(side)) for side, rows in sides.items()]
    counts = [count(when(col("side") == side, 1)).alias(side) for side in sides]
    rows = reduce(DataFrame.unionByName, tagged).groupBy(*COLUMNS).agg(*counts)
    (found,) = rows.selectExpr(
        "coalesce(sum(k), 0) AS rows",
        "coalesce(sum(greatest(k - a, 0) + greatest(k - f, 0)), 0) AS kafka",
        "coalesce(sum(greatest(a - k, 0)), 0) AS archive",
        "coalesce(sum(greatest(f - k, 0)), 0) AS folder",
    ).collect()
    return dict(found.asDict())


def topic_appears(
    spark: SparkSession,
    *,
    servers: str,
    directory: str,
    pattern: str,
    topic: str,
    records: int,
    name: str,
    trigger: str,
) -> dict[str, Any]:
    """Archive a pattern, make a topic of it meanwhile, and stop when that is archived.

    The topics whose settings the archive has then, and how the query was triggered.
    """
    kafka, files = Kafka(servers), Files(spark, directory)
    triggers: list[str] = []
    ended = threading.Event()

    def act() -> None:
        try:
            until(
                lambda: ended.is_set() or (Path(directory) / commit_path(0)).exists(),
                timeout_s=WAIT_TIMEOUT_S,
            )
            (query,) = spark.streams.active
            triggers.append(query._jsq.streamingQuery().trigger().toString())
            kafka.create_topic(topic, 1)
            producer = KafkaProducer(bootstrap_servers=servers)
            for number in range(records):
                producer.send(topic, b"%d" % number)
            producer.close()
            until(
                lambda: ended.is_set() or archived_end(directory, topic) == records,
                timeout_s=WAIT_TIMEOUT_S,
            )
        finally:
            if not ended.is_set():  # whatever is wrong: else it archives for ever
                os.kill(os.getpid(), signal.SIGTERM)

    jars = spark.sparkContext.getConf().get("spark.jars", "").split(",")
    actor = threading.Thread(target=act)
    actor.start()
    job = ArchiveJob(directory, pattern=pattern, trigger=trigger, name=name)
    try:
        archive(job, SparkOptions(jars=jars), kafka)
    finally:
        ended.set()
        actor.join()
    names = [status.path.rpartition("/")[2] for status in files.list("_odradek/topics")]
    return {"topics": [name.removesuffix(".json") for name in names], "triggers": triggers}


def archived_end(directory: str, topic: str) -> int:
    """Where a topic's one partition ends in the archive; a topic may be there before its records.

    Not by `Archive`, whose Spark has a job in another thread.
    """
    commits = [
        Commit.from_json(json.loads(file.read_bytes()))
        for file in Path(directory, COMMITS).glob("0*")
    ]
    ranges = [part for commit in commits for part in commit.ranges if part.topic == topic]
    return max((part.end_offset for part in ranges), default=0)


def overtaken(spark: SparkSession, *, directory: str) -> str:
    """What a job says at its next commit when a second one has started."""
    files = Files(spark, directory)
    first = claim(files)
    claim(files)
    try:
        first.commit(first.stage(), [])
    except PipelineError as error:
        return str(error)
    return "it committed"


def syncs_of_a_commit(spark: SparkSession, *, directory: str) -> list[str]:
    """What is synced for a commit, in this order, relative to the archive."""
    files = Files(spark, directory)
    begin(files, About())
    writer = claim(files)
    folder = writer.stage()
    write_records(records(spark.range(3), "id"), files.absolute(folder), About().partition_by)
    parts = [OffsetRange("t", 0, 0, 3)]
    staged = staged_files(spark, files, folder, parts)
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(str(path.relative_to(directory)))
        fsync(descriptor)

    with patch("os.fsync", noted):
        writer.commit(folder, staged, parts)
    return synced


def folders_of_times(
    spark: SparkSession, *, directory: str, zone: str, times_ms: list[int]
) -> dict[str, list[int]]:
    """Where records of some times go, if the session has a time zone; their times by folder."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, zone)
    try:
        times = spark.createDataFrame([(ms,) for ms in times_ms], "ms bigint")
        write_records(records(times, "ms"), directory, ("topic", "date", "hour"))
        files = spark.read.parquet(directory).selectExpr(
            "regexp_extract(input_file_name(), 'date=.*(?=/)', 0) AS folder",
            "unix_millis(timestamp) AS ms",
        )
        rows = files.orderBy("ms").collect()
    finally:
        spark.conf.set(name, before)
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row.folder, []).append(row.ms)
    return found


def write_strange(spark: SparkSession, *, file: str) -> None:
    """Parquet of another schema in the place of a file."""
    folder = Path(f"{file}-strange")
    frame = spark.range(3).selectExpr("'a' AS offset", "id AS value", "'b' AS timestamp")
    frame.coalesce(1).write.parquet(str(folder))
    (written,) = folder.glob("*.parquet")
    target = Path(file)
    target.write_bytes(written.read_bytes())
    target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
    shutil.rmtree(folder)


def sorts_of_a_batch(spark: SparkSession, *, directory: str) -> int:
    """How often Spark sorts what becomes files."""
    rows = records(spark.range(9), "id")
    assert rows.schema["topic"].nullable  # as Spark's Kafka source has it
    write_records(rows, directory, About().partition_by)
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    store: Any = spark._jsparkSession.sharedState().statusStore()
    plan = store.executionsList().last().physicalPlanDescription()
    return len(re.findall(r"^\(\d+\) Sort", plan, re.MULTILINE))


def staged(spark: SparkSession, *, directory: str, end: int, offsets: list[int]) -> str:
    """What is said of a batch for the range 0..end whose files have these offsets."""
    frame = spark.createDataFrame([(offset,) for offset in offsets], "offset bigint")
    write_records(records(frame.repartition(2), "offset"), f"{directory}/staged", ("topic",))
    try:
        found = staged_files(
            spark, Files(spark, directory), "staged", [OffsetRange("t", 0, 0, end)]
        )
    except PipelineError as error:
        return str(error)
    return f"{sum(file.records for file in found)} records"


def records(numbers: DataFrame, column: str) -> DataFrame:
    """Records of one partition whose offsets and times are these numbers."""
    return numbers.selectExpr(
        "binary('k') AS key",
        "binary('v') AS value",
        "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers",
        f"if({column} IS NOT NULL, 't', NULL) AS topic",
        "0 AS partition",
        f"{column} AS offset",
        f"timestamp_millis({column}) AS timestamp",
        "0 AS timestampType",
    )
