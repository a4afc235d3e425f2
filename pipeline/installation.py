"""Which Spark, Scala and Java are installed, and whether they fit together."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .errors import PipelineError

CONNECTOR: Final = "spark-sql-kafka-0-10"
NEEDED_BESIDE: Final = ("spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2")
JAVA_VERSION_TIMEOUT_S: Final = 30
JAVA_TOO_NEW: Final = 24
"""The first Java without a security manager, which Hadoop needs in Spark before 4.1."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The Spark that pyspark runs."""

    home: Path
    version: str
    """Version of pyspark; the connector's must be the same."""
    scala: str
    """Scala version of Spark's own jars, such as `2.13`."""

    @property
    def package(self) -> str:
        """The coordinates of the Kafka connector."""
        return f"org.apache.spark:{CONNECTOR}_{self.scala}:{self.version}"


def find_installation(home: Path, version: str) -> Installation:
    """The Spark in `home`.  Raises: PipelineError if it is missing or not of pyspark's version."""
    found = _first_match(r"spark-core_(\d+\.\d+)-(.+)\.jar", _names(home / "jars"))
    if found is None:
        raise PipelineError(
            f"there is no Spark in {home}: unset SPARK_HOME, or point it at Spark {version}"
        )
    scala, core_version = found.groups()
    if core_version != version:
        raise PipelineError(
            f"pyspark is {version}, but SPARK_HOME={home} holds Spark {core_version}: unset"
            f" SPARK_HOME, or pip install pyspark=={core_version}"
        )
    return Installation(home, version, scala)


def needs_download(spark: Installation, jars: Iterable[str], packages: Iterable[str]) -> bool:
    """Whether the connector is neither among jars and packages nor among Spark's own jars.

    Raises: PipelineError for a connector that does not fit, or without the jars that it needs.
    """
    names = [jar.rpartition("/")[2] for jar in jars]
    pattern = rf".*{CONNECTOR}_([\d.]+)-(.+)\.jar"
    given = _first_match(pattern, names)
    if given is not None:
        _check_fits(spark, given[1], given[2], given.string)
        _check_complete(spark, given.string, names)
        return False
    for package in packages:
        if found := re.fullmatch(rf"[^:]+:{CONNECTOR}_([\d.]+):(.+)", package.strip()):
            _check_fits(spark, found[1], found[2], found.string)
            return False
    return _first_match(pattern, _names(spark.home / "jars")) is None


def check_java(spark: Installation, environ: Mapping[str, str]) -> None:
    """Refuse a Java that is missing, too old or too new.  Raises: PipelineError."""
    if (spark.home / "conf" / "spark-env.sh").exists():
        return  # it may choose another Java than the one found here
    needed = 17 if int(spark.version.split(".")[0]) >= 4 else 8
    version = _java_version(environ)
    if version is None:
        raise PipelineError(
            f"there is no Java, and Spark {spark.version} needs {needed} or later: install"
            f" Java 17 (apt install openjdk-17-jre-headless), or set JAVA_HOME"
        )
    if version < needed:
        raise PipelineError(
            f"Java {version} is too old for Spark {spark.version}, which needs {needed} or later:"
            f" install Java 17, or set JAVA_HOME to it"
        )
    release = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:2])
    if version >= JAVA_TOO_NEW and release < (4, 1):
        raise PipelineError(
            f"Java {version} is too new for Spark {spark.version}, which does not run on"
            f" {JAVA_TOO_NEW} or later: install Java 17, or set JAVA_HOME to it"
        )


def java_major(text: str) -> int | None:
    """The major version in the text of `java -version` or of a `release` file."""
    found = re.search(r"(?:version|JAVA_VERSION=)\s*\"?(?:1\.)?(\d+)", text)
    return int(found[1]) if found else None


def _java_version(environ: Mapping[str, str]) -> int | None:
    """Version of the Java that bin/spark-class runs: JAVA_HOME's, else `java` on the path."""
    java = shutil.which("java", path=environ.get("PATH"))
    if home := environ.get("JAVA_HOME"):
        java = f"{home}/bin/java"
    if java is None or not os.access(java, os.X_OK):
        return None
    release = Path(os.path.realpath(java)).parent.parent / "release"
    if release.exists():
        return java_major(release.read_text(errors="replace"))
    said = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=JAVA_VERSION_TIMEOUT_S
    )
    return java_major(said.stderr + said.stdout)


def _check_fits(spark: Installation, scala: str, version: str, name: str) -> None:
    if (scala, version) != (spark.scala, spark.version):
        raise PipelineError(
            f"{name} is for Spark {version} with Scala {scala}, but this is Spark {spark.version}"
            f" with Scala {spark.scala}: give {CONNECTOR}_{spark.scala}-{spark.version}.jar"
            f" and what it needs, or leave --jars out and it is downloaded"
        )


def _check_complete(spark: Installation, connector: str, names: Iterable[str]) -> None:
    there = [*names, *_names(spark.home / "jars")]
    missing = [stem for stem in NEEDED_BESIDE if not any(stem in name for name in there)]
    if missing:
        raise PipelineError(
            f"{connector} needs {' and '.join(missing)} beside it: add the jars to --jars, or"
            f" leave --jars out and all of it is downloaded"
        )


def _first_match(pattern: str, names: Iterable[str]) -> re.Match[str] | None:
    return next((found for name in names if (found := re.fullmatch(pattern, name))), None)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.jar"))
