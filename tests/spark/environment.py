"""Where each tested Spark lives: an environment of its own, its Kafka connector, what it is called.

`make spark` makes the environments; `python -m tests.spark.prepare` fetches the connectors.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "spark"
STAMP: Final = ".complete"


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

    def missing(self) -> str | None:
        """What is not there yet and how to get it."""
        if not self.python.exists():
            return f"there is no PySpark {self.version} (make spark)"
        if not self.connector_jars():
            return f"Spark's connector is not there (python -m tests.spark.prepare {self.name})"
        return None


RELEASES: Final = {
    spark.name: spark
    for spark in (Spark("4.0", "4.0.0", scala="2.13"), Spark("3.5", "3.5.7", scala="2.12"))
}
