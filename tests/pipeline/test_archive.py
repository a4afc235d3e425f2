"""Topics into an archive and back by readers of every kind, and what a job refuses to do."""

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.pipeline.kafka import Kafka
from tests.pipeline.filling import PARTITIONS, fill
from tests.spark.warm import Result, WarmSpark
from tests.support.brokers import NewTopicName
from tests.support.waiting import until
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

JOBS = "tests.pipeline.archive_jobs"


class Archiving:
    """The command with a warm Spark on one folder."""

    def __init__(self, spark: WarmSpark, server: Server, directory: Path) -> None:
        self.spark = spark
        self.servers = server.bootstrap_servers
        self.directory = directory

    def run(self, topics: str, *arguments: str, to: Path | None = None) -> Result:
        folder = str(to or self.directory)
        servers = ("--bootstrap-servers", self.servers)
        line = ("archive", *servers, "--topics", topics, "--to", folder, "--once", *arguments)
        return self.spark.command(*line)

    def archive(self, topics: str, *arguments: str) -> str:
        done = self.run(topics, *arguments)
        assert done.code == 0, done.stderr
        return done.stdout

    def refused(self, topics: str, *arguments: str, to: Path | None = None) -> str:
        done = self.run(topics, *arguments, to=to)
        assert done.code == 2, done
        assert done.stderr.splitlines()[-1].startswith("Error: "), done.stderr
        return done.stderr.splitlines()[-1]

    def differences(self, topic: str) -> dict[str, Any]:
        """Rows that only Kafka has, only the archive, only its folder; and how many there are."""
        found: dict[str, Any] = self.spark.run(
            f"{JOBS}.differences", servers=self.servers, topic=topic, directory=str(self.directory)
        )
        return found

    def files(self) -> list[Path]:
        return sorted(self.directory.glob("topic=*/**/*.parquet"))


def same(rows: int) -> dict[str, Any]:
    return {"rows": rows, "kafka": 0, "archive": 0, "folder": 0}


def test_each_record_once_over_runs_lost_checkpoints_and_compaction(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    archiving = Archiving(warm_spark, server, tmp_path / "archive")
    topic = new_topic("archived", partitions=PARTITIONS)
    fill(server.bootstrap_servers, topic, 10_000)
    said = archiving.archive(topic, "--max-offsets-per-trigger", "4000")
    assert said.startswith("10000 records archived in 3 commits")
    assert archiving.differences(topic) == same(10_000)
    assert {file.parent.name for file in archiving.files()} == {
        "date=2026-01-01",
        "date=2026-01-02",
    }

    assert archiving.archive(topic).startswith("0 records archived in 0 commits")
    checkpoint = tmp_path / "archive" / "_odradek" / "checkpoint"
    checkpoint.rename(tmp_path / "lost")
    fill(server.bootstrap_servers, topic, 500, first=10_000)
    assert archiving.archive(topic).startswith("500 records archived in 1 commit")

    before = archiving.files()
    compact = ("compact", "--archive", str(archiving.directory))
    assert warm_spark.command(*compact, "--target-bytes", "1").stdout.startswith("0 files became 0")
    done = warm_spark.command(*compact)
    assert done.code == 0, done.stderr
    assert len(archiving.files()) == 2 < len(before)
    assert archiving.differences(topic) == same(10_500)
    assert archiving.archive(topic, "--compact").startswith("0 records archived")

    # A checkpoint from before: what Spark repeats is not archived again.
    checkpoint.rename(tmp_path / "newer")
    (tmp_path / "lost").rename(checkpoint)
    assert archiving.archive(topic).startswith("0 records archived in 0 commits")
    assert archiving.differences(topic) == same(10_500)


def test_a_batch_is_sorted_once(warm_spark: WarmSpark, tmp_path: Path) -> None:
    assert warm_spark.run(f"{JOBS}.sorts_of_a_batch", directory=str(tmp_path / "batch")) == 1


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([0, 1, 5, 63, 64, 199], "6 records"),  # with gaps, as transactions leave them
        ([0, 1, 5, 5, 64, 199], "Spark wrote offsets of t-0 twice"),
        ([1, 65, 129, 193, 65], "Spark wrote offsets of t-0 twice"),
        ([0, 200], "Spark wrote offsets 0 to 200 of t-0, which were not asked for"),
    ],
)
def test_what_spark_has_written_is_checked(
    warm_spark: WarmSpark, tmp_path: Path, offsets: list[int], said: str
) -> None:
    arguments = {"directory": str(tmp_path), "end": 200, "offsets": offsets}
    assert warm_spark.run(f"{JOBS}.staged", **arguments).startswith(said)


def test_a_commit_is_on_the_disk_step_by_step(warm_spark: WarmSpark, tmp_path: Path) -> None:
    synced = warm_spark.run(f"{JOBS}.syncs_of_a_commit", directory=str(tmp_path / "archive"))
    wanted = [
        r"_odradek/staging/.*/part-[^/]*\.parquet",
        r"_odradek/staging/.*/\.part-[^/]*\.parquet\.crc",
        r"_odradek/staging/.*-_intent",
        r"topic=t/date=1970-01-01",
        r"topic=t",
        r"_odradek/commits/\.odradek-[^/]*\.json",
        r"_odradek/commits",
    ]
    left = iter(synced)
    for pattern in wanted:
        assert any(re.fullmatch(pattern, path) for path in left), (pattern, synced)


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Auckland"])
def test_a_day_is_the_same_day_in_every_time_zone(
    warm_spark: WarmSpark, tmp_path: Path, zone: str
) -> None:
    times = {
        "date=1969-12-31/hour=23": [-1],
        "date=1970-01-01/hour=0": [0, 3_599_999],
        "date=2025-12-31/hour=23": [1_767_225_599_999],
        "date=2026-01-01/hour=0": [1_767_225_600_000],
        "date=+294247-01-10/hour=4": [9_223_372_036_854_775],
    }
    folders = warm_spark.run(
        f"{JOBS}.folders_of_times",
        directory=str(tmp_path / "archive"),
        zone=zone,
        times_ms=[ms for some in times.values() for ms in some],
    )
    assert folders == times


def test_topics_by_pattern_in_folders_as_asked(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    archiving = Archiving(warm_spark, server, tmp_path / "archive")
    stem = f"pattern-{warm_spark.spark.name}"  # topics of another release's run are there, too
    one, other = new_topic(f"{stem}.a", partitions=PARTITIONS), new_topic(f"{stem}.b")
    longer = new_topic(f"not.{stem}.a")
    for topic, count in ((one, 800), (other, 0), (longer, 5)):
        fill(server.bootstrap_servers, topic, count)
    line = (
        *("archive", "--bootstrap-servers", server.bootstrap_servers, "--once"),
        *("--topics-pattern", rf"{re.escape(stem)}\..*", "--to", str(archiving.directory)),
    )
    done = warm_spark.command(*line, "--partition-by", "topic,partition,date,hour")
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("800 records archived"), f"{longer} only holds a match"
    assert archiving.differences(one) == same(800)
    assert archiving.directory / f"topic={one}" / "partition=0" / "date=2026-01-01" / "hour=0" in {
        file.parent for file in archiving.files()
    }
    compacted = warm_spark.command("compact", "--archive", str(archiving.directory))
    assert compacted.stdout.startswith("0 files became 0"), compacted
    refused = archiving.refused(f"{one},{other}", "--partition-by", "topic")
    assert "is partitioned by topic,partition,date,hour: leave --partition-by away" in refused

    fill(server.bootstrap_servers, other, 3)
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.delete_topics([one])[one].result(30)
    until(lambda: one not in admin.list_topics(timeout=30).topics)
    lost = warm_spark.command(*line)
    assert (lost.code, f"{one} was deleted from the cluster" in lost.stderr) == (2, True), lost
    done = warm_spark.command(*line, "--no-fail-on-data-loss")
    assert done.stdout.startswith("3 records archived in 1 commit"), done


def test_a_topic_that_comes_while_its_pattern_is_archived(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    stem = f"coming-{warm_spark.spark.name}"
    first, later = new_topic(f"{stem}.a", partitions=PARTITIONS), f"{stem}.later"
    fill(server.bootstrap_servers, first, 400)
    folder = str(tmp_path / "archive")
    found = warm_spark.run(
        f"{JOBS}.topic_appears",
        servers=server.bootstrap_servers,
        directory=folder,
        pattern=rf"{re.escape(stem)}\..*",
        topic=later,
        records=7,
        name=stem,
        trigger="200 milliseconds",
    )
    assert found == {"topics": [first, later], "triggers": ["ProcessingTimeTrigger(200)"]}
    cluster = Kafka(server.bootstrap_servers)
    assert cluster.committed(f"spark-{stem}", [later]) == {later: {0: 7}}
    cluster.close()
    archiving = Archiving(warm_spark, server, tmp_path / "archive")
    assert archiving.differences(later) == same(7)


def test_what_is_refused(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    archiving = Archiving(warm_spark, server, tmp_path / "archive")
    topic, other = new_topic("refused", partitions=PARTITIONS), new_topic("other")
    fill(server.bootstrap_servers, topic, 400)
    archiving.archive(topic)
    commits = sorted((archiving.directory / "_odradek" / "commits").iterdir())

    assert f"is an archive of {topic}, and not of {other} only" in archiving.refused(other)
    elsewhere = tmp_path / "elsewhere"
    checkpoint = archiving.directory / "_odradek" / "checkpoint"
    said = archiving.refused(other, "--checkpoint", str(checkpoint), to=elsewhere)
    assert f"is of topic {topic}, which this job does not read" in said
    said = archiving.refused(topic, "--checkpoint", str(checkpoint), to=tmp_path / "empty")
    assert f"offset 100 of {topic}-0, but the archive" in said, said
    assert "has none of it" in said
    assert not list(elsewhere.rglob("*.json")), "what was refused has begun no archive"

    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "notes.txt").write_text("mine")
    assert "holds notes.txt: give an empty folder" in archiving.refused(topic, to=strange)
    assert "notes.txt/archive" in archiving.refused(topic, to=strange / "notes.txt" / "archive")
    assert "missing-topic" in archiving.refused("missing-topic")

    eaten = f"offsets 100 to 104 of {topic}-0 are no longer in the cluster (retention removed them)"
    fill(server.bootstrap_servers, topic, 400)
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    part = TopicPartition(topic, 0, 105)
    admin.delete_records([part])[part].result(30)
    assert eaten in archiving.refused(topic)
    assert sorted((archiving.directory / "_odradek" / "commits").iterdir()) == commits
    assert archiving.archive(topic, "--no-fail-on-data-loss").startswith("395 records")

    overtaken = warm_spark.run(f"{JOBS}.overtaken", directory=str(archiving.directory))
    assert "another job has taken over the archive" in overtaken
    assert archiving.run(topic).code == 0

    admin.delete_topics([topic])[topic].result(30)
    until(lambda: topic not in admin.list_topics(timeout=30).topics)
    anew = NewTopic(topic, PARTITIONS, config={"retention.ms": "-1"})  # its records are old
    admin.create_topics([anew])[topic].result(30)
    assert "this is another topic of that name" in archiving.refused(topic)
    fill(server.bootstrap_servers, topic, 1200)
    assert f"{topic} was made anew since it was archived" in archiving.refused(topic)
