"""What is wrong with clusters, checkpoints and targets: one sentence, exit code 2, nothing lost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from tests.pipeline.copies import Stored
from tests.spark.warm import Result, WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

SPEC = """\
name: {name}
source: {{topics: [{topic}], bootstrap_servers: {servers}}}
schema: {{format: plain, fields: {{value: string}}}}
event_time: record_timestamp
watermark: 1 minute
window: 1 minute
key: value
measures: {{records: count}}
output: {{parquet: {parquet}}}
checkpoint: {folder}/checkpoint
"""
DAY_MS = 86_400_000
NANOSECONDS = 1_700_000_000_000_000_000


class Jobs:
    """Commands on one topic of one partition, and the topic."""

    def __init__(self, spark: WarmSpark, server: Server, topic: str, folder: Path) -> None:
        self.spark = spark
        self.servers = server.bootstrap_servers
        self.topic = topic
        self.folder = folder
        self.archived = folder / "archive"

    def produce(self, *values: bytes, times_ms: Sequence[int] = ()) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers)
        for number, value in enumerate(values):
            time_ms = times_ms[number] if times_ms else None
            producer.send(self.topic, value, partition=0, timestamp_ms=time_ms)
        producer.close()

    def delete_before(self, offset: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        admin.delete_records({TopicPartition(self.topic, 0): offset})
        admin.close()

    def run(self, job: str, *more: str) -> Result:
        """One of the jobs on the topic."""
        where = ("-b", self.servers)
        return self.spark.command(job, *self._line(job, where), *more)

    def _line(self, job: str, where: tuple[str, str]) -> tuple[str, ...]:
        archive = str(self.archived)
        copy = f"{self.topic}-again"
        lines: dict[str, tuple[str, ...]] = {
            "archive": (*where, "--topics", self.topic, "--to", archive, "--once"),
            "replay": (*where, "--archive", archive, "--topic", self.topic, "--to-topic", copy),
            "audit": (*where, "--topics", self.topic, "--archive", archive),
            "mirror": (
                *("--from", self.servers, "--to", self.servers),
                *("--topics", self.topic, "--prefix", "copy.", "--once"),
            ),
            "rollup": (*where, "--spec", str(self.folder / "spec.yaml"), "--once"),
        }
        return lines[job]

    def write_spec(self, **values: Any) -> None:
        given = {
            "name": f"{self.topic}-rolled",
            "topic": self.topic,
            "servers": self.servers,
            "parquet": self.folder / "rolled",
            "folder": self.folder,
        }
        (self.folder / "spec.yaml").write_text(SPEC.format(**{**given, **values}))

    def done(self, job: str, *more: str) -> str:
        result = self.run(job, *more)
        assert result.code == 0, result.stderr
        return result.stdout

    def refused(self, job: str, *more: str) -> str:
        """The last line on stderr."""
        result = self.run(job, *more)
        assert result.code == 2, result
        assert "Traceback" not in result.stderr
        last = result.stderr.splitlines()[-1]
        assert last.startswith("Error: "), result.stderr
        return last


@pytest.fixture
def jobs(warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path) -> Jobs:
    return Jobs(warm_spark, server, new_topic("bad", partitions=1), tmp_path)


def test_offsets_that_are_gone_and_checkpoints_of_others(
    jobs: Jobs, new_topic: NewTopicName
) -> None:
    jobs.write_spec()
    jobs.produce(b"a", b"b")
    assert jobs.done("mirror") == "2 records written\n"
    jobs.done("rollup")
    jobs.produce(b"c", b"d", b"e")
    jobs.delete_before(4)
    said = jobs.refused("mirror")
    assert f"the offsets 2 to 3 of {jobs.topic}-0 were removed before they were mirrored" in said
    said = jobs.refused("rollup")
    assert f"2 offsets of {jobs.topic}-0 from 2 on were removed (retention) before the job" in said
    assert "--no-fail-on-data-loss" in said
    assert jobs.done("mirror", "--no-fail-on-data-loss") == "1 record written\n"
    assert Stored(jobs.servers, f"copy.{jobs.topic}").count == 3

    jobs.write_spec(topic=new_topic("other"))
    assert "was made with another `source`: put the spec back" in jobs.refused("rollup")
    (jobs.folder / "file").touch()
    jobs.write_spec(folder=jobs.folder / "file", parquet=jobs.folder / "new")
    assert f"cannot write file:{jobs.folder}/file/checkpoint" in jobs.refused("rollup")


def test_a_checkpoint_that_a_power_cut_has_damaged(jobs: Jobs) -> None:
    """Spark syncs nothing of it."""
    jobs.produce(b"a", b"b")
    jobs.done("archive")
    checkpoint = jobs.archived / "_odradek" / "checkpoint"
    (checkpoint / "commits" / ".0.crc").unlink()
    (checkpoint / "commits" / "0").write_bytes(b"")
    jobs.produce(b"c")
    said = jobs.refused("archive")
    assert "a file of Spark's checkpoint is damaged, as by a power cut" in said
    checkpoint.rename(jobs.folder / "damaged")
    assert jobs.done("archive").startswith("1 record archived in 1 commit")


def test_targets_and_files_that_do_not_fit(jobs: Jobs, new_topic: NewTopicName) -> None:
    jobs.produce(b"small", b"x" * 3000, b"behind")
    jobs.done("archive")
    tiny = new_topic("tiny", partitions=1, config={"max.message.bytes": "2000"})
    said = jobs.refused("replay", "--to-topic", tiny)
    assert f"{tiny} does not take the record {jobs.topic}-0 1: " in said
    assert "the same command goes on behind it" in said
    assert Stored(jobs.servers, tiny).count == 1

    (file,) = jobs.archived.glob("topic=*/date=*/*.parquet")
    jobs.spark.run("tests.pipeline.archive_jobs.write_strange", file=str(file))
    for job in ("audit", "replay"):
        said = jobs.refused(job)
        assert "have another schema" in said or "is damaged" in said, said


def test_times_far_from_now_are_kept(jobs: Jobs) -> None:
    """Before 1970, in years of five digits, and as late as Spark can tell."""
    times_ms = [
        *(-1, -DAY_MS, -12_219_292_800_000),  # 1582, when the calendar of today began
        *(253_402_300_800_000, 1_700_000_000_000_000, 9_223_372_036_854_775),
    ]
    jobs.produce(*[b"v"] * len(times_ms), times_ms=times_ms)
    jobs.done("archive")
    jobs.done("replay")
    copy = f"{jobs.topic}-again"
    (records,) = Stored(jobs.servers, copy).records.values()
    assert [record.timestamp for record in records] == times_ms
    audited = jobs.run("audit", "--against-topic", copy)
    assert audited.code == 0, audited
    folders = {folder.name for folder in jobs.archived.glob("topic=*/date=*")}
    assert {"date=1969-12-31", "date=1582-10-15", "date=+294247-01-10"} <= folders


def test_times_that_spark_cannot_hold(jobs: Jobs) -> None:
    jobs.write_spec()
    jobs.produce(b"a", b"b", times_ms=[NANOSECONDS, 1])
    for job in ("archive", "mirror", "rollup"):
        assert "a record's timestamp is more than Spark can hold" in jobs.refused(job)
    assert Stored(jobs.servers, f"copy.{jobs.topic}").count == 0
    assert not list(jobs.archived.glob("topic=*"))
    assert not list(jobs.folder.glob("rolled/date=*"))
    jobs.delete_before(1)
    said = jobs.done("archive", "--no-fail-on-data-loss")
    assert said.startswith("1 record archived in 1 commit")
    jobs.produce(b"c", times_ms=[-NANOSECONDS])
    assert "a record's timestamp is more than Spark can hold" in jobs.refused("audit")
