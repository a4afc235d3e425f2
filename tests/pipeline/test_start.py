"""A Spark that cannot be started as it is asked for: one sentence and exit code 2, at once."""

import os
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.pipeline.harness import Commands
from tests.spark.environment import RELEASES
from tests.spark.warm import Result
from tests.support.brokers import NewTopicName
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
    commands: Commands, server: Server, topic: str, tmp_path: Path
) -> None:
    this = commands.spark
    (other,) = (spark for spark in RELEASES.values() if spark != this)
    if not other.connector_jars():
        pytest.skip("there are no connector jars of another Spark")
    folder = tmp_path / "archive"
    result = archive(commands, server, topic, folder, jars=other.connector_jars())
    fits = f"is for Spark {other.version} with Scala {other.scala}"
    check(result, f"{fits}, but this is Spark {this.version} with Scala {this.scala}", folder)


def test_no_master_at_the_address(
    commands: Commands, server: Server, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    result = archive(commands, server, topic, folder, master="spark://127.0.0.1:1")
    check(result, "no Spark master answers at spark://127.0.0.1:1", folder)


def test_a_java_that_is_too_old(
    commands: Commands,
    server: Server,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="1.7.0_80"\n')
    monkeypatch.setitem(os.environ, "JAVA_HOME", str(tmp_path / "jdk"))
    folder = tmp_path / "archive"
    result = archive(commands, server, topic, folder)
    needed = {"3.5": 8, "4.0": 17}[commands.spark.name]
    said = f"Java 7 is too old for Spark {commands.spark.version}, which needs {needed}"
    check(result, said, folder)


@pytest.mark.soak
def test_the_connector_is_there_whatever_spark_submit_is_told(
    commands: Commands, server: Server, topic: str, tmp_path: Path
) -> None:
    jar = tmp_path / "other.jar"
    ZipFile(jar, "w").close()
    told = {"PYSPARK_SUBMIT_ARGS": f"--jars {jar} --conf spark.a=1 pyspark-shell"}
    result = archive(commands, server, topic, tmp_path / "archive", env=told)
    assert (result.code, result.stdout[:18]) == (0, "0 records archived"), result


@pytest.mark.soak  # a client that is not answered is given ten seconds; see test_pipeline_cli.py
def test_nobody_at_the_brokers_address(commands: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    line = ["archive", "--topics", "t", "--to", str(folder), "--once", "-b", "127.0.0.1:1"]
    check(commands.run(*line), "no broker answers at 127.0.0.1:1", folder)
