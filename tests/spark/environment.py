"""Where each tested Spark lives: an environment of its own, its Kafka connector, what it is called.

`make spark` makes the environments; `python -m tests.spark.prepare` fetches the connectors.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "spark"
STAMP: Final = ".complete"
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""Of every JVM of Spark in the tests: more of either costs more than so brief a life gains."""


def small_settings(jvm_options: str) -> dict[str, str]:
    """Settings of every session of Spark in the tests."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": jvm_options,
        "spark.executor.extraJavaOptions": jvm_options,
        "spark.sql.shuffle.partitions": "2",
    }


@dataclass(frozen=True, slots=True)
class Spark:
    """One release of Spark."""

    name: str
    version: str
    scala: str

    @property
    def python(self) -> Path:
        """The interpreter that has this pyspark."""
        return ROOT / f".venv-spark-{self.name}" / "bin" / "python"

    @property
    def made(self) -> Path:
        """Is there once its environment has everything."""
        return self.python.parents[1] / ".made"

    @property
    def home(self) -> Path:
        """What SPARK_HOME is to be for Spark's own scripts."""
        (home,) = self.python.parent.parent.glob("lib/python*/site-packages/pyspark")
        return home

    @property
    def package(self) -> str:
        """The connector's coordinates: they follow Spark's version and its Scala."""
        return f"org.apache.spark:spark-sql-kafka-0-10_{self.scala}:{self.version}"

    @property
    def connector_dir(self) -> Path:
        """Where the connector's jars are kept."""
        return CACHE / f"connector-{self.version}"

    def connector_jars(self) -> list[Path]:
        """The connector and what it needs; empty until they have been fetched."""
        if not (self.connector_dir / STAMP).exists():
            return []
        return sorted(self.connector_dir.glob("*.jar"))

    @property
    def classes(self) -> Path:
        """Spark's classes as a JVM maps them, which spares it a third of a start; maybe not there.

        A JVM that they do not fit goes on without them.
        """
        return CACHE / f"classes-{self.version}.jsa"

    @property
    def jvm_options(self) -> str:
        """Options of every JVM of this Spark."""
        if not self.classes.exists():
            return JVM_OPTIONS
        return f"{JVM_OPTIONS} {shlex.quote(f'-XX:SharedArchiveFile={self.classes}')}"

    @property
    def small(self) -> dict[str, str]:
        """Settings of every session of this Spark."""
        return small_settings(self.jvm_options)

    def missing(self) -> str | None:
        """What is not there yet and how to get it."""
        if not self.made.exists():
            return f"there is no PySpark {self.version} (make spark)"
        if not self.connector_jars():
            return f"Spark's connector is not there (python -m tests.spark.prepare {self.name})"
        return None


RELEASES: Final = {
    spark.name: spark
    for spark in (Spark("4.0", "4.0.0", scala="2.13"), Spark("3.5", "3.5.7", scala="2.12"))
}
