"""A Spark that cannot be started as it is asked for: one sentence and exit code 2, at once."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import NewTopicName
from tests.pipeline.harness import Commands, Result
from tests.spark.environment import RELEASES
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


def archive(commands: Commands, server: Server, topic: str, folder: Path, **options: Any) -> Result:
    line = ["archive", "--topics", topic, "--to", str(folder), "--once"]
    return commands.run(*line, "-b", server.bootstrap_servers, **options)


@pytest.fixture
def topic(new_topic: NewTopicName) -> str:
    return new_topic("unstarted")


def check(result: Result, said: str, folder: Path) -> None:
    """Exit code 2, one sentence as the last line, and nothing that looks like an archive."""
    assert result.code == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert said in result.stderr.splitlines()[-1]
    assert not folder.exists()


def test_the_connector_of_another_spark(
    commands_4_0: Commands, server: Server, topic: str, tmp_path: Path
) -> None:
    others = RELEASES["3.5"].connector_jars()
    if not others:
        pytest.skip("there are no connector jars of another Spark")
    folder = tmp_path / "archive"
    result = archive(commands_4_0, server, topic, folder, jars=others)
    check(result, "is for Spark 3.5.7 with Scala 2.12, but this is Spark 4.0.0", folder)


def test_no_master_at_the_address(
    commands_4_0: Commands, server: Server, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    result = archive(commands_4_0, server, topic, folder, master="spark://127.0.0.1:1")
    check(result, "no Spark master answers at spark://127.0.0.1:1", folder)


def test_a_java_that_is_too_old(
    commands_4_0: Commands,
    server: Server,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="11.0.22"\n')
    monkeypatch.setitem(os.environ, "JAVA_HOME", str(tmp_path / "jdk"))
    folder = tmp_path / "archive"
    result = archive(commands_4_0, server, topic, folder)
    check(result, "Java 11 is too old for Spark 4.0.0, which needs 17", folder)


def test_nobody_at_the_brokers_address(commands_4_0: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    line = ["archive", "--topics", "t", "--to", str(folder), "--once", "-b", "127.0.0.1:1"]
    check(commands_4_0.run(*line), "no broker answers at 127.0.0.1:1", folder)
