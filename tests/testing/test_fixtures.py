"""The fixtures in a pytest run of their own, as in a user's project."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.wire

USER_TESTS = """
from kafka import KafkaAdminClient, KafkaProducer


def topics(broker):
    admin = KafkaAdminClient(**broker.client_config("kafka-python"))
    found = {t["name"]: len(t["partitions"]) for t in admin.describe_topics()}
    admin.close()
    return found


def write(broker, topic):
    producer = KafkaProducer(**broker.client_config("kafka-python"))
    producer.send(topic, b"x").get(30)
    producer.close()


def test_one(odradek, odradek_server):
    assert odradek is odradek_server
    assert topics(odradek) == {}
    write(odradek, "t")
    assert topics(odradek) == {"t": PARTITIONS}


def test_two_starts_clean(odradek):
    assert topics(odradek) == {}
    write(odradek, "t")


def test_three_shares_what_is_there(odradek_server):
    assert topics(odradek_server) == {"t": PARTITIONS}
    odradek_server.kill()


def test_four_has_a_running_broker(odradek):
    assert topics(odradek) == {}
"""


def pytest_run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_clean_state_and_settings(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nodradek_settings =\n    num.partitions = 3\n")
    (tmp_path / "test_user.py").write_text(USER_TESTS.replace("PARTITIONS", "3"))
    done = pytest_run(tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_the_command_line_goes_first(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nodradek_settings =\n    num.partitions = 3\n")
    (tmp_path / "test_user.py").write_text(USER_TESTS.replace("PARTITIONS", "2"))
    done = pytest_run(tmp_path, "--odradek-set", "num.partitions=2")
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_a_bad_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text("def test_one(odradek): pass\n")
    done = pytest_run(tmp_path, "--odradek-set", "num.partitions")
    assert done.returncode != 0
    assert "'num.partitions' is not name=value" in done.stdout + done.stderr
    done = pytest_run(tmp_path, "--odradek-set", "num.partitions=many")
    assert "BrokerFailed" in done.stdout and "num.partitions" in done.stdout
    assert "odradek/testing/" not in done.stdout  # no frame of ours


def test_fixtures_are_listed(tmp_path: Path) -> None:
    listed = pytest_run(tmp_path, "--fixtures").stdout
    for name in ("odradek_settings", "odradek_server", "odradek "):
        assert f"\n{name}" in listed
