"""Spark's Kafka connector where it is not installed: fetched, or said which can be had."""

import zipfile
from pathlib import Path
from typing import Final

import pytest

from odradek.pipeline import connector
from odradek.pipeline.connector import not_downloaded, package_of
from odradek.pipeline.installation import Installation
from tests.pipeline.harness import Commands
from tests.spark.releases import present

VERSION: Final = "4.0.99"
PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"
CONNECTOR: Final = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION)
NEEDED: Final = (
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.99"),
    ("org.apache.commons", "commons-pool2", "2.99.0"),
)
NOT_NEEDED: Final = ("org.apache.hadoop", "hadoop-client-runtime", "3.99.0")
DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def publish(repository: Path, artifact: tuple[str, str, str], needs: str = "") -> None:
    """Put a jar and its POM into a Maven repository."""
    group, name, version = artifact
    folder = repository / group.replace(".", "/") / name / version
    folder.mkdir(parents=True)
    (folder / f"{name}-{version}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
        f"<artifactId>{name}</artifactId><version>{version}</version>"
        f"<dependencies>{needs}</dependencies></project>"
    )
    with zipfile.ZipFile(folder / f"{name}-{version}.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")


@pytest.mark.soak  # 15 s for a Spark of its own
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_it_is_fetched_without_what_spark_has(tmp_path: Path) -> None:
    spark, repository = present("4.0"), tmp_path / ".m2" / "repository"
    for artifact in (*NEEDED, NOT_NEEDED):
        publish(repository, artifact)
    needs = "".join(DEPENDENCY.format(*one) for one in (*NEEDED, NOT_NEEDED))
    publish(repository, CONNECTOR, needs)
    # Ivy looks there first, and everything is there: no network is needed.
    java = f"{spark.jvm_options} -Duser.home={tmp_path}"
    line = ("connector", str(tmp_path / "jars"), "--spark-version", VERSION)
    commands = Commands(spark)
    result = commands.run(*line, conf={"spark.driver.extraJavaOptions": java})
    assert result.code == 0, result.stderr
    names = {f"{group}_{name}-{version}.jar" for group, name, version in (CONNECTOR, *NEEDED)}
    assert {path.name for path in (tmp_path / "jars").iterdir()} == names
    option, _, jars = result.stdout.strip().partition(" spark.jars=")
    assert (option, len(jars.split(","))) == ("--conf", len(names))
    assert all(Path(jar).is_file() for jar in jars.split(","))


def test_the_scala_of_another_version_is_that_of_pips_pyspark() -> None:
    spark = Installation(Path("/spark"), "4.0.0", "2.13")
    assert package_of(spark) == package_of(spark, "4.0.0") == spark.package
    assert package_of(spark, "3.5.7") == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven Central as it was seen when a release was on its way there."""
    versions = {
        "spark-sql-kafka-0-10_2.13": {"3.5.7", "4.0.0", "4.0.1", "4.0.2", "4.0.10", "4.1.0"},
        "spark-token-provider-kafka-0-10_2.13": {"3.5.7", "4.0.0", "4.0.2", "4.0.10", "4.1.0"},
        "spark-sql-kafka-0-10_2.12": {"3.4.0", "3.5.1", "3.5.7", "3.5.8"},
        "spark-token-provider-kafka-0-10_2.12": {"3.4.0", "3.5.1", "3.5.7", "3.5.8"},
    }
    monkeypatch.setattr(connector, "_versions", lambda artifact: versions[artifact])


@pytest.mark.usefixtures("repository")
def test_the_versions_that_can_be_had_are_named() -> None:
    said = not_downloaded(PACKAGE, {})
    assert said is not None
    assert f"does not have {PACKAGE} with all that it needs" in said
    assert "(4.0.10 and 4.0.2 and 4.0.0 and 3.5.8 and 3.5.7)" in said
    assert "pip install 'pyspark[sql]==4.0.10'" in said
    assert not_downloaded(PACKAGE.replace(VERSION, "4.0.1"), {}) is not None, "half of it is there"


@pytest.mark.usefixtures("repository")
def test_what_is_there_or_looked_for_elsewhere_is_not_why_spark_did_not_start() -> None:
    assert not_downloaded(PACKAGE.replace(VERSION, "4.0.2"), {}) is None
    assert not_downloaded(PACKAGE, {"spark.jars.ivySettings": "ivy.xml"}) is None


def test_nobody_who_answers_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "MAVEN_CENTRAL", "http://127.0.0.1:1")
    said = not_downloaded(PACKAGE, {})
    assert said is not None and "does not answer: give the jars by --jars" in said
