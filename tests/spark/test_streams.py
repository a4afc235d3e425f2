"""Spark's streaming source and sink: triggers, checkpoints, and a job killed in the middle."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import FOR_SPARK, OLD_RECORDS_STAY, StartSpark
from tests.spark.rows import assert_exactly, assert_gapless
from tests.spark.session import SparkSession
from tests.support.brokers import NewTopicName, StartServer, create_topic
from tests.support.waiting import until
from tests.wire.servers import Server

KILLED_ROW_COUNT = 30_000
KILLED_BATCH_ROWS = 250  # so many batches that it is killed in the middle however late
KILL_AFTER_BATCHES = 3


def _write(spark: SparkSession, server: Server, topic: str, count: int) -> None:
    spark.run("batch.write", servers=server.bootstrap_servers, topic=topic, count=count, options={})


@contextmanager
def _archiving(
    spark: SparkSession, server: Server, directory: str, **options: str
) -> Iterator[None]:
    """A query of the session that all tests share: it ends here, also when the test fails."""
    spark.run(
        "streams.archive_start",
        servers=server.bootstrap_servers,
        options=options,
        directory=directory,
        every="200 milliseconds",
    )
    try:
        yield
    finally:
        if not spark.is_killed:
            spark.run("streams.archive_stop", directory=directory)


@pytest.mark.every_release
def test_available_now_takes_what_there_is_once(
    spark: SparkSession, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("available")
    _write(spark, server, topic, 5_000)
    arguments = {
        "servers": server.bootstrap_servers,
        "options": {"subscribe": topic, "maxOffsetsPerTrigger": "2000"},
        "directory": str(tmp_path),
    }
    batches = spark.run("streams.archive_available", **arguments)
    assert sum(batches) == 5_000
    assert len(batches) >= 3
    assert_exactly(spark.run("streams.archived", directory=str(tmp_path)), 5_000)

    assert spark.run("streams.archive_available", **arguments) == []
    _write(spark, server, topic, 10)
    assert sum(spark.run("streams.archive_available", **arguments)) == 10


def test_a_processing_time_trigger_follows_the_topic(
    spark: SparkSession, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic, directory = new_topic("followed"), str(tmp_path)
    with _archiving(spark, server, directory, subscribe=topic, minPartitions="8"):
        _write(spark, server, topic, 3_000)
        spark.run("streams.archive_catch_up", directory=directory)
        assert_exactly(spark.run("streams.archived", directory=directory), 3_000)
        _write(spark, server, topic, 500)
        spark.run("streams.archive_catch_up", directory=directory)
    archived = spark.run("streams.archived", directory=directory)
    assert sum(line["count"] for line in archived) == 3_500
    for line in archived:
        assert_gapless(line)


@pytest.mark.every_release
def test_a_stream_into_another_topic(
    spark: SparkSession, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    origin, copy = new_topic("origin"), new_topic("copy", partitions=3)
    _write(spark, server, origin, 4_000)
    batches = spark.run(
        "streams.copy_available",
        servers=server.bootstrap_servers,
        options={"subscribe": origin, "maxOffsetsPerTrigger": "1500"},
        topic=copy,
        directory=str(tmp_path),
    )
    assert sum(batches) == 4_000
    summary = spark.run("batch.read", servers=server.bootstrap_servers, options={"subscribe": copy})
    assert_exactly(summary, 4_000)


def test_a_killed_job_goes_on_from_its_checkpoint(
    spark: SparkSession,
    start_spark: StartSpark,
    server: Server,
    new_topic: NewTopicName,
    tmp_path: Path,
) -> None:
    topic = new_topic("killed")
    _write(spark, server, topic, KILLED_ROW_COUNT)
    arguments = {"servers": server.bootstrap_servers, "directory": str(tmp_path)}
    victim = start_spark()
    try:
        victim.run(
            "streams.archive_start",
            **arguments,
            options={"subscribe": topic, "maxOffsetsPerTrigger": str(KILLED_BATCH_ROWS)},
            every="0 seconds",
        )
        _wait_for_batches(tmp_path / "checkpoint" / "commits", KILL_AFTER_BATCHES)
    finally:
        victim.kill()
    done = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
    assert done < KILLED_ROW_COUNT // KILLED_BATCH_ROWS, "it was to be killed in the middle"

    spark.run("streams.archive_available", **arguments, options={"subscribe": topic})
    assert_exactly(spark.run("streams.archived", directory=str(tmp_path)), KILLED_ROW_COUNT)


def test_a_stream_outlives_a_broker_that_is_killed_and_started_again(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    topic, directory = "outlived", str(tmp_path)
    server = start_server(FOR_SPARK)
    create_topic(server.bootstrap_servers, topic, partitions=4, config=OLD_RECORDS_STAY)
    _write(spark, server, topic, 2_000)
    with _archiving(spark, server, directory, subscribe=topic):
        spark.run("streams.archive_catch_up", directory=directory)
        server.kill()
        server.start()
        _write(spark, server, topic, 1_000)
        spark.run("streams.archive_catch_up", directory=directory)
    archived = spark.run("streams.archived", directory=directory)
    assert sum(line["count"] for line in archived) == 3_000
    for line in archived:
        assert_gapless(line)


def _wait_for_batches(commits: Path, count: int) -> None:
    until(lambda: len(list(commits.glob("[0-9]*"))) >= count, f"{count} batches are committed", 120)
