"""Streams on a real Spark: progress, lag in a group, files, and what is said of bad input."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from odradek.pipeline.checkpoints import read_checkpoint
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.local_files import LocalFiles
from tests.pipeline.harness import WAIT_TIMEOUT_S
from tests.spark.environment import Spark
from tests.spark.warm import MASTER, WarmSpark, environment
from tests.support.brokers import NewTopicName
from tests.support.waiting import until
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
JOBS = "tests.pipeline.stream_jobs"


@pytest.fixture
def kafka(server: Server) -> Iterator[Kafka]:
    cluster = Kafka(server.bootstrap_servers)
    yield cluster
    cluster.close()


def fill(server: Server, topic: str, count: int) -> None:
    """Records, to each of three partitions as many."""
    producer = KafkaProducer(bootstrap_servers=server.bootstrap_servers)
    for number in range(count):
        producer.send(topic, str(number).encode(), partition=number % 3)
    producer.close()


def stream(spark: WarmSpark, server: Server, topic: str, folder: Path, **more: Any) -> Any:
    arguments = {"servers": server.bootstrap_servers, "topic": topic, "name": topic, **more}
    return spark.run(f"{JOBS}.stream", directory=str(folder), **arguments)


def test_a_stream_is_run_once_and_again(
    warm_spark: WarmSpark, server: Server, kafka: Kafka, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("streamed")
    fill(server, topic, 300)
    assert stream(warm_spark, server, topic, tmp_path) == {"records": 300}
    assert kafka.committed(f"spark-{topic}", [topic]) == {topic: {0: 100, 1: 100, 2: 100}}
    fill(server, topic, 30)
    assert stream(warm_spark, server, topic, tmp_path) == {"records": 30}
    assert kafka.committed(f"spark-{topic}", [topic]) == {topic: {0: 110, 1: 110, 2: 110}}

    shown = warm_spark.command(
        "checkpoint", str(tmp_path / "checkpoint"), "-b", server.bootstrap_servers, "--json"
    )
    assert shown.code == 0
    document = json.loads(shown.stdout)
    assert (document["batch_id"], document["committed_batch_id"]) == (1, 1)
    told = [
        (p["partition"], p["start"], p["offset"], p["end"], p["state"])
        for p in document["partitions"]
    ]
    assert told == [(number, 0, 110, 110, "ok") for number in range(3)]


def test_the_listener_serves_queries_of_others(
    warm_spark: WarmSpark, server: Server, kafka: Kafka, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("listened")
    fill(server, topic, 30)
    arguments = {"servers": server.bootstrap_servers, "topic": topic, "name": "theirs"}
    warm_spark.run(f"{JOBS}.listened", directory=str(tmp_path), **arguments)
    group = "spark-theirs"
    until(
        lambda: kafka.committed(group, [topic]) == {topic: {0: 10, 1: 10, 2: 10}},
        timeout_s=WAIT_TIMEOUT_S,
    )


def test_offsets_that_are_gone_stop_the_job(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("eaten")
    fill(server, topic, 30)
    assert stream(warm_spark, server, topic, tmp_path) == {"records": 30}
    fill(server, topic, 30)
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    admin.delete_records({TopicPartition(topic, 1): 15})
    admin.close()

    checkpoint = str(tmp_path / "checkpoint")
    shown = warm_spark.command("checkpoint", checkpoint, "-b", server.bootstrap_servers)
    assert shown.code == 1
    assert "gone: 5 offsets were removed before they were read" in shown.stdout
    said = stream(warm_spark, server, topic, tmp_path)["error"]
    assert "--no-fail-on-data-loss" in said
    careless = {"failOnDataLoss": "false"}
    assert stream(warm_spark, server, topic, tmp_path, options=careless) == {"records": 25}


def test_what_cannot_run_is_one_sentence(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    at_once = {"fetchOffset.retryIntervalMs": "10"}  # Spark asks three times before it gives up
    said = stream(warm_spark, server, "missing", tmp_path / "a", options=at_once)["error"]
    assert said.startswith("a topic is not there")
    topic = new_topic("unwritable")
    (tmp_path / "file").touch()
    said = stream(warm_spark, server, topic, tmp_path / "file")["error"]
    assert said.startswith("a folder cannot be written")
    said = stream(warm_spark, server, topic, tmp_path / "b", once=False, trigger="soon")["error"]
    assert said == "--trigger 'soon' is no interval: give one such as '10 seconds'"


def test_files_are_there_whole_or_not_at_all(warm_spark: WarmSpark, tmp_path: Path) -> None:
    root = tmp_path / "root"
    told = warm_spark.run(f"{JOBS}.files", uri=str(root))
    assert told.pop("uri") == f"file:{root}"
    refused = told.pop("refused")
    assert told == {
        "f": [*b"first\0\xff"],
        "c": "new",
        "files": [["c.json", 3], ["d/e/f.json", 7]],
        "top": ["c.json"],
        "nowhere": [[], []],
        "folders": ["a", "d"],
        "deleted": [True, False],
        "there": [True, False],
    }
    assert [said.split(": ")[0].split("/")[0] for said in refused] == [
        "file:",
        "cannot write file:",
        "cannot write file:",
        "cannot read file:",
    ]
    assert "is not overwritten" in refused[0]
    assert "already exists" in refused[1]
    left = {path.name for path in root.rglob("*") if path.is_file()}
    assert left == {"c.json", ".c.json.crc"}


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("file:///proc/x/y", "a folder cannot be written"),
        ("nope://bucket/x", "Hadoop does not know this kind of URI"),
        ("s3a://bucket/x", "hadoop-aws of Spark's own Hadoop version"),
    ],
)
def test_a_target_that_cannot_be_written_is_named(
    warm_spark: WarmSpark, uri: str, said: str
) -> None:
    answer = warm_spark.run(f"{JOBS}.unwritable", uri=uri)
    assert uri.removeprefix("file://") in answer
    assert said in answer


def test_settings_of_the_user_win(warm_spark: WarmSpark) -> None:
    names = ["spark.driver.memory", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"]
    assert warm_spark.run(f"{JOBS}.settings", names=names) == {
        "spark.driver.memory": warm_spark.spark.small["spark.driver.memory"],
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }


class Terminal:
    """A pseudo-terminal as the stderr of a child, and what was written to it."""

    def __init__(self) -> None:
        self._here, self.there = os.openpty()
        self.seen = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._here, 4096)
            except OSError:  # the last that had it open has closed it
                return
            self.seen += data.decode(errors="replace")

    def close(self) -> None:
        os.close(self.there)
        self._reader.join(10)
        os.close(self._here)


class Stream:
    """A stream in a process of its own that runs until somebody ends it; a context manager."""

    def __init__(self, release: Spark, server: Server, topic: str, folder: Path) -> None:
        jars = [str(jar) for jar in release.connector_jars()]
        arguments = {
            "spark": {"master": MASTER, "conf": release.small, "jars": jars},
            "servers": server.bootstrap_servers,
            "topic": topic,
            "directory": str(folder),
            "name": "until-stopped",
            "once": False,
        }
        self.terminal = Terminal()
        self.process = subprocess.Popen(
            [str(release.python), "-m", "tests.pipeline.stream_jobs", json.dumps(arguments)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=self.terminal.there,
            text=True,
        )

    def wait_for(self, shown: str) -> None:
        """Until the terminal has shown something."""
        until(lambda: shown in self.terminal.seen, lambda: self.terminal.seen, WAIT_TIMEOUT_S)

    def told(self) -> Any:
        """What it printed, once it has ended well."""
        printed, _ = self.process.communicate(timeout=WAIT_TIMEOUT_S)
        assert self.process.returncode == 0, self.terminal.seen
        return json.loads(printed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.terminal.close()


def test_sigterm_lets_the_batch_end(
    release: Spark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("stopped")
    fill(server, topic, 30)
    with Stream(release, server, topic, tmp_path) as stream:
        stream.wait_for("until-stopped: batch 0, 30 records")
        fill(server, topic, 1)  # more might come in two batches
        stream.wait_for("until-stopped: batch 1, 31 records")
        stream.process.send_signal(signal.SIGTERM)
        assert stream.told() == {"records": 31}
        assert "batch query=until-stopped batch=1 records=1" in stream.terminal.seen
    found = read_checkpoint(LocalFiles(tmp_path / "checkpoint"))
    assert found is not None
    assert found.batch_id == found.committed_batch_id == 1


@pytest.mark.soak  # `make test` kills one in test_archive_kills.py, in the middle of a batch
def test_a_killed_jvm_is_one_sentence(
    release: Spark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("jvm-killed")
    fill(server, topic, 30)
    with Stream(release, server, topic, tmp_path) as stream:
        stream.wait_for("until-stopped: batch 0, 30 records")
        (jvm,) = psutil.Process(stream.process.pid).children()
        jvm.kill()
        assert stream.told()["error"].startswith("Spark's JVM has ended")
