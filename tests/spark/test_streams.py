"""Spark's streaming source and sink: triggers, checkpoints, and a job killed in the middle."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import FOR_SPARK, OLD_RECORDS_STAY
from tests.spark.environment import Spark
from tests.spark.rows import assert_exactly, assert_gapless
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName, StartServer, create_topic
from tests.support.waiting import until
from tests.wire.servers import Server

JOBS = "tests.spark.jobs"
KILLED_ROW_COUNT = 300_000
KILLED_BATCH_ROWS = 250  # so many batches that it is killed in the middle however late
KILL_AFTER_BATCHES = 3


def _write(warm_spark: WarmSpark, server: Server, topic: str, count: int) -> None:
    warm_spark.run(
        f"{JOBS}.batch.write",
        servers=server.bootstrap_servers,
        topic=topic,
        count=count,
        options={},
    )


@contextmanager
def _archiving(
    warm_spark: WarmSpark, server: Server, directory: str, **options: str
) -> Iterator[None]:
    """A query of the session that all tests share: it ends here, also when the test fails."""
    warm_spark.run(
        f"{JOBS}.streams.archive_start",
        servers=server.bootstrap_servers,
        options=options,
        directory=directory,
        every="200 milliseconds",
    )
    try:
        yield
    finally:
        if not warm_spark.is_killed:
            warm_spark.run(f"{JOBS}.streams.archive_stop", directory=directory)


@pytest.mark.every_release
def test_available_now_takes_what_there_is_once(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("available")
    _write(warm_spark, server, topic, 5_000)
    arguments = {
        "servers": server.bootstrap_servers,
        "options": {"subscribe": topic, "maxOffsetsPerTrigger": "2000"},
        "directory": str(tmp_path),
    }
    batches = warm_spark.run(f"{JOBS}.streams.archive_available", **arguments)
    assert sum(batches) == 5_000
    assert len(batches) >= 3
    assert_exactly(warm_spark.run(f"{JOBS}.streams.archived", directory=str(tmp_path)), 5_000)

    assert warm_spark.run(f"{JOBS}.streams.archive_available", **arguments) == []
    _write(warm_spark, server, topic, 10)
    assert sum(warm_spark.run(f"{JOBS}.streams.archive_available", **arguments)) == 10


def test_a_processing_time_trigger_follows_the_topic(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic, directory = new_topic("followed"), str(tmp_path)
    with _archiving(warm_spark, server, directory, subscribe=topic, minPartitions="8"):
        _write(warm_spark, server, topic, 3_000)
        warm_spark.run(f"{JOBS}.streams.archive_catch_up", directory=directory)
        assert_exactly(warm_spark.run(f"{JOBS}.streams.archived", directory=directory), 3_000)
        _write(warm_spark, server, topic, 500)
        warm_spark.run(f"{JOBS}.streams.archive_catch_up", directory=directory)
    archived = warm_spark.run(f"{JOBS}.streams.archived", directory=directory)
    assert sum(line["count"] for line in archived) == 3_500
    for line in archived:
        assert_gapless(line)


def test_a_stream_into_another_topic(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    origin, copy = new_topic("origin"), new_topic("copy", partitions=3)
    _write(warm_spark, server, origin, 4_000)
    batches = warm_spark.run(
        f"{JOBS}.streams.copy_available",
        servers=server.bootstrap_servers,
        options={"subscribe": origin, "maxOffsetsPerTrigger": "1500"},
        topic=copy,
        directory=str(tmp_path),
    )
    assert sum(batches) == 4_000
    summary = warm_spark.run(
        f"{JOBS}.batch.read", servers=server.bootstrap_servers, options={"subscribe": copy}
    )
    assert_exactly(summary, 4_000)


@pytest.mark.soak  # `make test` kills an archive's job (tests/pipeline/test_archive_kills.py)
def test_a_killed_job_goes_on_from_its_checkpoint(
    warm_spark: WarmSpark,
    release: Spark,
    server: Server,
    new_topic: NewTopicName,
    tmp_path: Path,
) -> None:
    topic = new_topic("killed")
    _write(warm_spark, server, topic, KILLED_ROW_COUNT)
    arguments = {"servers": server.bootstrap_servers, "directory": str(tmp_path)}
    victim = WarmSpark(release, tmp_path / "victim")
    try:
        victim.run(
            f"{JOBS}.streams.archive_start",
            **arguments,
            options={"subscribe": topic, "maxOffsetsPerTrigger": str(KILLED_BATCH_ROWS)},
            every="0 seconds",
        )
        _wait_for_batches(tmp_path / "checkpoint" / "commits", KILL_AFTER_BATCHES)
    finally:
        victim.kill()
    done = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
    assert done < KILLED_ROW_COUNT // KILLED_BATCH_ROWS, "it was to be killed in the middle"

    warm_spark.run(f"{JOBS}.streams.archive_available", **arguments, options={"subscribe": topic})
    assert_exactly(
        warm_spark.run(f"{JOBS}.streams.archived", directory=str(tmp_path)), KILLED_ROW_COUNT
    )


def test_a_stream_outlives_a_broker_that_is_killed_and_started_again(
    warm_spark: WarmSpark, start_server: StartServer, tmp_path: Path
) -> None:
    topic, directory = "outlived", str(tmp_path)
    server = start_server(FOR_SPARK)
    create_topic(server.bootstrap_servers, topic, partitions=4, config=OLD_RECORDS_STAY)
    _write(warm_spark, server, topic, 2_000)
    with _archiving(warm_spark, server, directory, subscribe=topic):
        warm_spark.run(f"{JOBS}.streams.archive_catch_up", directory=directory)
        server.kill()
        server.start()
        _write(warm_spark, server, topic, 1_000)
        warm_spark.run(f"{JOBS}.streams.archive_catch_up", directory=directory)
    archived = warm_spark.run(f"{JOBS}.streams.archived", directory=directory)
    assert sum(line["count"] for line in archived) == 3_000
    for line in archived:
        assert_gapless(line)


def _wait_for_batches(commits: Path, count: int) -> None:
    until(lambda: len(list(commits.glob("[0-9]*"))) >= count, f"{count} batches are committed", 120)
