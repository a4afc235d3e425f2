"""What a failed test reports, and the files that it keeps."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odradek.testing import Broker
from odradek.testing.external import ExternalBroker
from odradek.testing.report import LINES_MAX, Report, keep

from .test_fixtures import pytest_run

pytestmark = pytest.mark.wire

USER_TESTS = """
import pytest
from confluent_kafka import Consumer


def test_before(odradek):
    odradek.topics.create("before")


def test_fails(odradek):
    odradek.topics.create("orders", partitions=2)
    odradek.produce("orders", b"the value", key=b"k")
    config = {"group.id": "app", "client.id": "my-app", "auto.offset.reset": "earliest"}
    consumer = Consumer({**odradek.client_config("confluent"), **config})
    consumer.subscribe(["orders"])
    assert consumer.consume(1, 30)
    consumer.commit(asynchronous=False)
    assert False, "its own reason"


def test_passes(odradek):
    pass
"""


@pytest.mark.slow
def test_a_failed_test_reports_and_keeps(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    base = tmp_path / "base"
    done = pytest_run(tmp_path, "--odradek-keep=failed", f"--basetemp={base}", "-W", "ignore")
    said = done.stdout
    assert "1 failed, 2 passed" in said, said + done.stderr
    sections = dict(re.findall(r"-{5,} ([\w ]+) -{5,}\n(.*?)(?=\n-{5,} |\n={5,})", said, re.S))
    assert re.fullmatch("orders: 0 ends at (0|1), 1 ends at (1|0)", sections["topics"])
    group = sections["groups"]
    assert group.startswith("app is Stable\n  my-app ")
    assert "committed 1, lag 0" in group and "joined" in group
    assert "OffsetCommit v" in sections["last requests"]
    assert "before" not in said.partition("its own reason")[2]
    (kept,) = re.findall(r"the files are in (\S+); look", sections["odradek kept"])
    dumped = subprocess.run(
        [sys.executable, "-m", "odradek", "log", "dump", "--records", f"{kept}/data"],
        capture_output=True,
        text=True,
    )
    assert "the value" in dumped.stdout, dumped
    assert (
        len(
            [
                each
                for each in base.iterdir()
                if each.name.startswith("odradek") and not each.is_symlink()
            ]
        )
        == 1
    )
    with Broker(data_dir=Path(kept) / "data", in_process=True) as again:
        assert [record.value for record in again.records("orders")] == [b"the value"]


@pytest.mark.slow
def test_what_to_keep_is_named(tmp_path: Path) -> None:
    done = pytest_run(tmp_path, "--odradek-keep=all")
    assert "odradek_keep: 'all' is none of none, failed" in done.stderr


@pytest.mark.slow
def test_the_files_of_a_broker_that_was_killed_are_kept(tmp_path: Path) -> None:
    with Broker() as broker:
        broker.topics.create("orders")
        broker.kill()
        said = dict([keep(broker, tmp_path)])["odradek kept"]
        assert f"odradek serve --data-dir {tmp_path}/data" in said
        assert (tmp_path / "data" / "orders-0").is_dir()
        assert "topic created topic=orders" in (tmp_path / "broker.log").read_text()


@pytest.mark.slow
def test_files_of_others_are_not_kept(tmp_path: Path) -> None:
    with Broker(in_process=True) as broker:
        external = ExternalBroker(broker.bootstrap_servers)
        external.start()
        assert keep(external, tmp_path) == (
            "odradek kept",
            "the files can't be kept: the fixture has not started these brokers, so it can't know "
            "where their files are",
        )
        external.topics.create("orders")
        sections = Report(external, time.time()).sections()
        assert sections == [("topics", "orders: 0 ends at 0")]


@pytest.mark.slow
def test_no_more_than_so_many_lines() -> None:
    with Broker() as broker:
        for index in range(40):
            broker.topics.create(f"topic-{index:02}")
        sections = Report(broker, 0.0).sections()
        lines = sum(1 + len(text.splitlines()) for _, text in sections)
        assert [title for title, _ in sections] == ["odradek log", "topics"]
        assert lines <= LINES_MAX
        assert "… and 11 lines more" in dict(sections)["topics"]
        assert "… after" in dict(sections)["odradek log"]
        later = dict(Report(broker, time.time()).sections())
        assert "odradek log" not in later
        broker.kill()
        assert list(dict(Report(broker, 0.0).sections())) == ["odradek log"]
