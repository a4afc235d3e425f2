"""Spark's batch read of the filled topic, one warm session for both brokers.

Spark has an environment of its own (`make spark`); without it the measurement is left out and the
table says so.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.brokers import Kind
from benchmarks.measure import (
    MB_PER_S,
    Measure,
    Metric,
    NotAvailable,
    Sample,
    Stage,
)
from tests.spark.environment import RELEASES

ROOT: Final = Path(__file__).resolve().parents[2]
SPARK: Final = RELEASES["4.0"]
PROGRAM: Final = ROOT / "benchmarks" / "clients" / "spark_read.py"


class SparkRead(Measure):
    """A batch query that counts the records and sums the bytes of their values."""

    name = "spark_read"
    title = "Spark batch read"
    metrics = (Metric("rate", "batch read", MB_PER_S, "higher"),)
    warm_ups = 1

    def __init__(self) -> None:
        self._spark: subprocess.Popen[str] | None = None

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One query.  Raises: NotAvailable."""
        filling = stage.filled(kind)
        spark = self._session()
        assert spark.stdin is not None
        assert spark.stdout is not None
        spark.stdin.write(f"{stage.broker(kind).address} {filling.topic.name}\n")
        spark.stdin.flush()
        line = spark.stdout.readline()
        if not line:
            raise RuntimeError("Spark ended; start the client by hand to see why")
        answer = json.loads(line)
        if answer["records"] != filling.record_count:
            raise RuntimeError(f"{answer['records']} of {filling.record_count} records were read")
        return {"rate": float(answer["rate"])}

    def close(self) -> None:
        """End the session."""
        if self._spark is None:
            return
        assert self._spark.stdin is not None
        assert self._spark.stdout is not None
        self._spark.stdin.close()
        self._spark.wait()
        self._spark.stdout.close()
        self._spark = None

    def _session(self) -> subprocess.Popen[str]:
        if self._spark is None:
            missing = SPARK.missing()
            if missing is not None:
                raise NotAvailable(missing)
            jars = ",".join(map(str, SPARK.connector_jars()))
            self._spark = subprocess.Popen(
                [SPARK.python, PROGRAM, jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._spark
