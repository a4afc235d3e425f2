"""What the measurements of Spark have in common: a session that starts when first asked for."""

import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Measure, NotAvailable
from tests.spark.environment import RELEASES
from tests.spark.warm import WarmSpark

JOBS: Final = "benchmarks.clients.spark_jobs."


class SparkMeasure(Measure):
    """Runs the functions of `benchmarks/clients/spark_jobs.py` in one warm session."""

    warm_ups = 1

    def __init__(self) -> None:
        self._spark: WarmSpark | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None

    @property
    def home(self) -> Path:
        """A directory that lives as long as the session."""
        if self._home is None:
            self._home = tempfile.TemporaryDirectory(prefix="odradek-bench-spark-")
        return Path(self._home.name)

    def job(self, name: str, /, **arguments: object) -> Any:
        """Call a job.  Raises: NotAvailable, JobFailed."""
        if self._spark is None:
            missing = RELEASES["4.0"].missing()
            if missing is not None:
                raise NotAvailable(missing)
            self._spark = WarmSpark(RELEASES["4.0"], self.home / "session")
        return self._spark.run(JOBS + name, **arguments)

    def close(self) -> None:
        """End the session."""
        if self._spark is not None:
            self._spark.close()
            self._spark = None
        if self._home is not None:
            self._home.cleanup()
            self._home = None
