"""Replay: an archive comes back into a topic, each record once, in order, whatever is killed."""

import json
import shutil
import time
from pathlib import Path

import pytest

from odradek.pipeline.copy_task import BURST_S
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.manifest import Commit, commit_path
from tests.pipeline.copies import Stored, check_copy, fill, wait_for_records
from tests.pipeline.harness import Commands
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COUNT = 3000
RATE = 500
KILLS = 4


@pytest.fixture(scope="module")
def archived(
    warm_spark: WarmSpark,
    server: Server,
    new_topic: NewTopicName,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, str]:
    """A topic of three partitions and its archive."""
    topic = new_topic("archived", partitions=3)
    fill(server.bootstrap_servers, topic, 3, COUNT)
    folder = str(tmp_path_factory.mktemp("archives") / topic)
    servers = ("--bootstrap-servers", server.bootstrap_servers)
    made = warm_spark.command(
        *("archive", *servers, "--topics", topic, "--to", folder, "--once"),
        *("--max-offsets-per-trigger", str(2 * COUNT // 3)),
    )
    assert made.stdout.startswith(f"{COUNT} records archived in "), made
    return topic, folder


def line(server: Server, archived: tuple[str, str], to_topic: str, *more: str) -> list[str]:
    topic, folder = archived
    servers = ["--bootstrap-servers", server.bootstrap_servers]
    return [
        "replay",
        "--archive",
        folder,
        *servers,
        "--topic",
        topic,
        "--to-topic",
        to_topic,
        *more,
    ]


def test_a_topic_comes_back_as_it_was(
    warm_spark: WarmSpark, server: Server, archived: tuple[str, str]
) -> None:
    topic, _ = archived
    servers = server.bootstrap_servers
    target = f"{topic}-by-{warm_spark.spark.name}"
    command = line(server, archived, target)
    first = warm_spark.command(*command)
    assert (first.code, first.stdout) == (0, f"{COUNT} records written to {target}\n")
    assert f"chunk=1 chunks=1 written={COUNT} skipped=0" in first.stderr, first
    assert check_copy(servers, topic, target) == COUNT
    kafka = Kafka(servers)
    assert kafka.partitions(target) == 3
    assert kafka.topic_config(target) == {"retention.ms": "-1"}
    kafka.close()
    again = warm_spark.command(*command)
    assert (again.code, again.stdout) == (0, f"0 records written to {target}\n")
    assert Stored(servers, target).count == COUNT


def test_partitions_are_kept_if_asked_and_ranges_and_times_are(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, archived: tuple[str, str]
) -> None:
    topic, _ = archived
    servers = server.bootstrap_servers
    target = new_topic("kept", partitions=4)
    command = line(server, archived, target, "--keep-partitions", "--starting-offsets", "100")
    some = warm_spark.command(*command, "--ending-offsets", "0:200,1:100,2:150")
    assert (some.code, some.stdout) == (0, f"150 records written to {target}\n"), some
    only = {0: range(100, 200), 2: range(100, 150)}
    assert check_copy(servers, topic, target, only=only) == 150
    copied = Stored(servers, target).by_source()
    assert {p: {place for place, _, _ in found} for (_, p), found in copied.items()} == {
        0: {0},
        2: {2},
    }
    # More of the same goes on; something else does not.
    more = warm_spark.command(*command, "--ending-offsets", "0:200,1:110,2:160")
    assert (more.code, more.stdout) == (0, f"20 records written to {target}\n"), more
    other = warm_spark.command(*line(server, archived, target))
    assert other.code == 2
    assert "was asked for something else" in other.stderr
    # Old records do not stay where retention is short.
    short = new_topic("short", config={"retention.ms": "604800000"})
    few = line(server, archived, short, "--ending-offsets", "10")
    warned = warm_spark.command(*few)
    assert (warned.code, warned.stdout) == (0, f"30 records written to {short}\n"), warned
    assert "some are older than the retention" in warned.stderr
    # By time, under a name of its own.
    times = sorted(r.timestamp for found in Stored(servers, topic).records.values() for r in found)
    between = ["--starting-timestamp", str(times[1000]), "--ending-timestamp", str(times[1200])]
    timed = warm_spark.command(*line(server, archived, target, "--name", "timed", *between))
    assert (timed.code, timed.stdout) == (0, f"200 records written to {target}\n"), timed


def test_only_files_with_what_is_wanted_are_opened(
    warm_spark: WarmSpark,
    server: Server,
    new_topic: NewTopicName,
    archived: tuple[str, str],
    tmp_path: Path,
) -> None:
    topic, folder = archived
    part = shutil.copytree(folder, tmp_path / "part")
    first = Commit.from_json(json.loads((part / commit_path(0)).read_bytes()))
    for file in first.files:
        (part / file.path).unlink()
    target = new_topic("rest")
    command = line(server, (topic, str(part)), target)
    starts = ",".join(f"{asked.partition}:{asked.end_offset}" for asked in first.ranges)
    rest = warm_spark.command(*command, "--starting-offsets", starts)
    count = COUNT - sum(file.records for file in first.files)
    assert (rest.code, rest.stdout) == (0, f"{count} records written to {target}\n"), rest
    whole = warm_spark.command(*command, "--name", "whole")
    assert (whole.code, "that was to be read is not there" in whole.stderr) == (2, True), whole


def test_bad_input_is_said_in_a_sentence(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, archived: tuple[str, str]
) -> None:
    _, folder = archived
    stamped = new_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    small = new_topic("small", partitions=1)
    cases = {
        "the broker's time instead of their own": line(server, archived, stamped),
        "has only 1: add partitions": line(server, archived, small, "--keep-partitions"),
        "has no topic x: it holds": [*line(server, archived, "y"), "--topic", "x"],
        "is no archive": [*line(server, archived, "y"), "--archive", str(Path(folder).parent)],
        "holds offsets 0 to": line(server, archived, "y", "--starting-offsets", "0:999999"),
    }
    for says, command in cases.items():
        result = warm_spark.command(*command)
        assert (result.code, says in result.stderr) == (2, True), (says, result)
    kafka = Kafka(server.bootstrap_servers)
    assert not kafka.exists("y")
    kafka.close()


def test_a_rate_is_kept(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, archived: tuple[str, str]
) -> None:
    target = new_topic("slowly")
    some = ("--ending-offsets", "200", "--rate", str(RATE))
    began_s = time.monotonic()
    done = warm_spark.command(*line(server, archived, target, *some))
    took_s = time.monotonic() - began_s
    assert (done.code, done.stdout) == (0, f"600 records written to {target}\n"), done
    assert took_s > 600 / RATE - 2 * BURST_S


@pytest.mark.soak  # a client that is not answered is given ten seconds
def test_nobody_at_the_brokers_address(warm_spark: WarmSpark, archived: tuple[str, str]) -> None:
    topic, folder = archived
    nobody = ("--archive", folder, "--bootstrap-servers", "127.0.0.1:1")
    result = warm_spark.command("replay", *nobody, "--topic", topic, "--to-topic", "y")
    assert (result.code, "no broker answers at 127.0.0.1:1" in result.stderr) == (2, True), result


@pytest.mark.soak  # `make test` kills an archive's job (test_archive_kills.py)
def test_nothing_is_doubled_or_missing_when_the_job_is_killed(
    commands: Commands,
    warm_spark: WarmSpark,
    server: Server,
    new_topic: NewTopicName,
    archived: tuple[str, str],
    tmp_path: Path,
) -> None:
    topic, _ = archived
    target = new_topic("killed", partitions=2)
    command = line(server, archived, target)
    count = 0
    for number in range(KILLS):
        # So slow that it is in the middle for a long time, however late it is killed.
        running = commands.start(*command, "--rate", "100", output=tmp_path / f"{number}.log")
        try:
            wait_for_records(server.bootstrap_servers, target, count + 200)
        finally:
            running.kill()
        count = Stored(server.bootstrap_servers, target).count
        assert count < COUNT
    done = warm_spark.command(*command)
    assert done.code == 0, done
    assert "were there already" in done.stdout
    assert check_copy(server.bootstrap_servers, topic, target) == COUNT
