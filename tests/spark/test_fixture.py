"""The fixture `odradek_spark` in a user's project: one session for a run, with its connector."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.spark.releases import present
from tests.spark.warm import environment

PROJECT: Final = """
import sys

import pytest


def test_no_spark_before_it_is_asked_for(odradek):
    assert "pyspark" not in sys.modules and "odradek.pipeline" not in sys.modules


def kafka(broker):
    return {"kafka.bootstrap.servers": broker.bootstrap_servers}


def test_write(odradek_server, odradek_spark):
    rows = odradek_spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("kafka").options(topic="t", **kafka(odradek_server)).save()
    odradek_spark.conf.set("our.session", "the first")


def test_read(odradek_server, odradek_spark):
    read = odradek_spark.read.format("kafka").options(subscribe="t", **kafka(odradek_server))
    assert sorted(int(row.value) for row in read.load().collect()) == list(range(10))
    assert odradek_spark.conf.get("our.session") == "the first"


def test_segments(odradek_server, odradek_spark):
    table = odradek_spark.read.format("odradek").options(topics="t", toLogEnd="true")
    assert table.load(str(odradek_server.data_dir)).count() == 10
"""


def run(project: Path, *conf: str) -> str:
    lines = "\n".join(f"    {line}" for line in conf)
    (project / "pytest.ini").write_text(f"[pytest]\nodradek_spark_conf =\n{lines}\n")
    (project / "test_project.py").write_text(PROJECT)
    done = subprocess.run(
        [str(present("4.0").python), "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.stdout + done.stderr


@pytest.mark.soak  # 30 s for a Spark of its own
def test_a_session_is_shared_by_a_run(tmp_path: Path) -> None:
    spark = present("4.0")
    jars = ",".join(map(str, spark.connector_jars()))
    settings = (f"{name}={value}" for name, value in spark.small.items())
    said = run(tmp_path, f"spark.jars={jars}", *settings)
    assert "4 passed" in said, said


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("spark.jars=/a/spark-sql-kafka-0-10_2.12-3.5.7.jar", "is for Spark 3.5.7"),
        ("spark.jars", "odradek_spark_conf: 'spark.jars' is not name=value"),
    ],
)
def test_what_keeps_spark_from_starting_is_one_sentence(
    tmp_path: Path, conf: str, says: str
) -> None:
    said = run(tmp_path, conf)
    # An editable package, as it is tested here, brings a warning of pytest.
    assert "1 passed, 3 errors" in said.replace(", 1 warning", ""), said
    assert says in said and "Traceback" not in said, said
