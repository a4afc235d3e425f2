"""Which settings Spark gets, and which combinations are refused before it starts."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from odradek.pipeline.connector import TESTED
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.installation import (
    Installation,
    check_java,
    find_installation,
    java_major,
    needs_download,
)
from odradek.pipeline.session import SparkOptions, settings_for
from odradek.pipeline.settings import (
    check_master,
    defaults_for,
    expanded,
    submit_settings,
    user_settings,
    without_settings,
)
from tests.spark.environment import RELEASES, ROOT

GIB = 2**30


def home_of(folder: Path, *jars: str) -> Path:
    """A folder with jars, as Spark's home."""
    (folder / "jars").mkdir()
    for jar in jars:
        (folder / "jars" / jar).touch()
    return folder


@pytest.fixture
def spark(tmp_path: Path) -> Installation:
    home = home_of(tmp_path, "spark-core_2.13-4.0.0.jar")
    return find_installation(home, "4.0.0")


def jars_of(spark: Installation, version: str = "4.0.0", scala: str = "2.13") -> list[str]:
    return [
        f"/j/org.apache.spark_spark-sql-kafka-0-10_{scala}-{version}.jar",
        f"/j/spark-token-provider-kafka-0-10_{scala}-{version}.jar",
        "/j/kafka-clients-3.9.0.jar",
        "/j/commons-pool2-2.12.0.jar",
    ]


def test_the_connector_follows_spark_and_its_scala(spark: Installation, tmp_path: Path) -> None:
    assert spark.package == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
    (tmp_path / "other").mkdir()
    old = find_installation(home_of(tmp_path / "other", "spark-core_2.12-3.5.7.jar"), "3.5.7")
    assert old.package == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"


def test_the_bounds_of_the_extra_are_the_tested_releases() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(line) for line in project["optional-dependencies"]["spark"]]
    (pyspark,) = [one.specifier for one in asked if one.name == "pyspark"]
    newest, oldest = (spark.version for spark in RELEASES.values())
    assert {(one.operator, one.version) for one in pyspark} == {("<=", newest), (">=", oldest)}
    assert (newest, oldest) == TESTED


def test_another_spark_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no Spark in"):
        find_installation(home_of(tmp_path), "4.0.0")
    (tmp_path / "jars" / "spark-core_2.12-3.5.7.jar").touch()
    with pytest.raises(PipelineError, match=r"pyspark is 4\.0\.0, .* holds Spark 3.5.7"):
        find_installation(tmp_path, "4.0.0")


def test_the_connector_is_downloaded_unless_it_is_there(spark: Installation) -> None:
    assert needs_download(spark, [], [])
    assert needs_download(spark, ["/j/other.jar"], ["g:other:1"])
    assert not needs_download(spark, jars_of(spark), [])
    assert not needs_download(spark, [], [spark.package])
    (spark.home / "jars" / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    assert not needs_download(spark, [], [])


@pytest.mark.parametrize(("version", "scala"), [("3.5.7", "2.13"), ("4.0.0", "2.12")])
def test_a_connector_that_does_not_fit_is_refused(
    spark: Installation, version: str, scala: str
) -> None:
    with pytest.raises(PipelineError, match=f"is for Spark {version} with Scala {scala}"):
        needs_download(spark, jars_of(spark, version, scala), [])
    package = f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{version}"
    with pytest.raises(PipelineError, match=f"is for Spark {version} with Scala {scala}"):
        needs_download(spark, [], [package])


def test_a_connector_alone_is_refused(spark: Installation) -> None:
    with pytest.raises(PipelineError, match="needs kafka-clients and commons-pool2 beside it"):
        needs_download(spark, jars_of(spark)[:2], [])


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('JAVA_VERSION="21"\nOS_NAME="Linux"', 21),
        ("bash: java: command not found", None),
    ],
)
def test_java_versions_are_understood(text: str, major: int | None) -> None:
    assert java_major(text) == major


def test_a_wrong_java_is_refused(spark: Installation, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    environ = {"JAVA_HOME": str(tmp_path / "jdk"), "PATH": ""}
    with pytest.raises(PipelineError, match=r"there is no Java, and Spark 4\.0\.0 needs 17"):
        check_java(spark, environ)
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(PipelineError, match=r"Java 11 is too old .* needs 17"):
        check_java(spark, environ)
    check_java(Installation(spark.home, "3.5.7", "2.12"), environ)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="24"\n')
    for version in ("3.5.7", "4.0.0"):
        with pytest.raises(PipelineError, match=r"Java 24 is too new .* install Java 17"):
            check_java(Installation(spark.home, version, "2.13"), environ)
    check_java(Installation(spark.home, "4.1.0", "2.13"), environ)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    check_java(spark, environ)


def test_the_users_settings_are_found_in_every_place(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.driver.memory  3g\nspark.a=1\nspark.b 1\n"
    )
    environ = {"PYSPARK_SUBMIT_ARGS": "--conf spark.b=2 --master 'local[3]' -c spark.c=3 pyspark"}
    assert user_settings(tmp_path, environ) == {
        "spark.driver.memory": "3g",
        "spark.a": "1",
        "spark.b": "2",
        "spark.c": "3",
        "spark.master": "local[3]",
    }
    assert user_settings(tmp_path, {"SPARK_CONF_DIR": "/nowhere"}) == {}
    assert submit_settings("--jars=a.jar,b.jar pyspark-shell") == {"spark.jars": "a.jar,b.jar"}
    with pytest.raises(PipelineError, match=r"PYSPARK_SUBMIT_ARGS cannot be read \(No closing quo"):
        submit_settings("--conf 'a=b")


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ([], "--packages g:a:1 --jars=a.jar --conf 'spark.a=x y' -c spark.b=2 --name n pyspark"),
        (["spark.jars.packages", "spark.b"], "--jars=a.jar --conf 'spark.a=x y' --name n pyspark"),
        (["spark.jars", "spark.a"], "--packages g:a:1 -c spark.b=2 --name n pyspark"),
    ],
)
def test_spark_submit_is_not_told_what_settings_say(names: list[str], left: str) -> None:
    told = "--packages g:a:1 --jars=a.jar --conf 'spark.a=x y' -c spark.b=2 --name n pyspark"
    assert without_settings(told, names) == left


def test_conf_wins_over_the_options_of_spark_submit_that_people_use() -> None:
    told = (
        "--driver-memory 1g --driver-java-options '-Da=b -Dc=d' --driver-class-path a.jar"
        " --executor-memory 2g --executor-cores 2 --num-executors 3 --total-executor-cores 6"
        " --exclude-packages g:a --repositories http://r --files f --archives z.zip --py-files p.py"
        " --queue q --driver-cores 4 --driver-library-path lib shell"
    )
    settings = submit_settings(told)
    assert settings == {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
        "spark.driver.extraClassPath": "a.jar",
        "spark.executor.memory": "2g",
        "spark.executor.cores": "2",
        "spark.executor.instances": "3",
        "spark.cores.max": "6",
        "spark.jars.excludes": "g:a",
        "spark.jars.repositories": "http://r",
        "spark.files": "f",
        "spark.archives": "z.zip",
        "spark.submit.pyFiles": "p.py",
        "spark.yarn.queue": "q",
        "spark.driver.cores": "4",
        "spark.driver.extraLibraryPath": "lib",
    }
    assert without_settings(told, settings) == "shell"


def test_what_the_user_set_wins_over_our_defaults(spark: Installation) -> None:
    def told(user: dict[str, str], **options: object) -> dict[str, str]:
        given = SparkOptions(**options)  # type: ignore[arg-type]
        return settings_for(spark, user, given, needs_kafka=False, cores=4, memory_bytes=8 * GIB)

    ours = told({})
    assert ours["spark.master"] == "local[*]"
    assert ours["spark.driver.memory"] == "2048m"
    assert ours["spark.sql.shuffle.partitions"] == "4"
    # What spark-defaults has, Spark reads by itself: it must not be set again.
    users = told({"spark.driver.memory": "9g", "spark.master": "local[2]"})
    assert "spark.driver.memory" not in users
    assert users["spark.master"] == "local[2]"
    asked = told(
        {"spark.driver.memory": "9g", "spark.master": "spark://a:1"},
        master="local[1]",
        conf={"spark.driver.memory": "5g", "spark.sql.shuffle.partitions": "7"},
    )
    assert asked["spark.master"] == "local[1]"
    assert asked["spark.driver.memory"] == "5g"
    assert asked["spark.sql.shuffle.partitions"] == "7"


def test_jars_and_packages_are_added_to_the_users(spark: Installation, tmp_path: Path) -> None:
    jar = tmp_path / "mine.jar"
    jar.touch()
    settings = settings_for(
        spark,
        {"spark.jars": "/theirs.jar", "spark.jars.packages": "g:theirs:1"},
        SparkOptions(jars=[str(jar)]),
        needs_kafka=True,
        cores=1,
        memory_bytes=GIB,
    )
    assert settings["spark.jars"] == f"/theirs.jar,{jar}"
    assert settings["spark.jars.packages"] == f"g:theirs:1,{spark.package}"


def test_a_cluster_keeps_its_own_memory_and_names() -> None:
    assert not {"spark.driver.memory", "spark.driver.host"} & defaults_for("yarn", 4, GIB).keys()
    assert defaults_for("local", 4, 64 * GIB)["spark.driver.memory"] == "4096m"
    assert defaults_for("local[2]", 8, GIB)["spark.sql.shuffle.partitions"] == "2"
    assert defaults_for("local[*,3]", 8, GIB)["spark.sql.shuffle.partitions"] == "8"


@pytest.mark.parametrize("master", ["local[*]", "local", "spark://h:7077", "k8s://https://h:1"])
def test_masters_are_known(master: str) -> None:
    check_master(master, {})


def test_what_is_no_master_is_refused() -> None:
    with pytest.raises(PipelineError, match=re.escape("--master localhost:7077 is none of")):
        check_master("localhost:7077", {})
    with pytest.raises(PipelineError, match="HADOOP_CONF_DIR"):
        check_master("yarn", {})
    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"})


def test_jars_may_be_globs_and_must_be_there(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar"):
        (tmp_path / name).touch()
    both = [str(tmp_path / "a.jar"), str(tmp_path / "b.jar")]
    assert expanded([f"{tmp_path}/*.jar", "hdfs://h/x.jar"]) == [*both, "hdfs://h/x.jar"]
    with pytest.raises(PipelineError, match="there is no such file"):
        expanded([f"{tmp_path}/*.zip"])
