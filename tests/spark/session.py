"""The pytest side of a Spark session that runs in a process of its own (jobs/worker.py)."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.spark.child import SparkChild
from tests.spark.environment import ROOT, Spark


class SparkSession(SparkChild):
    """One running Spark.  `run` sends it a job, `kill` ends it as a crash would."""

    def __init__(self, spark: Spark, directory: Path) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        super().__init__(spark, directory, "tests.spark.jobs.worker", spark.name, env)

    def _start(self) -> None:
        super()._start()
        try:
            self.take_answer()
        except BaseException:
            self.kill()
            raise

    def run(self, job: str, conf: Mapping[str, str] = {}, /, **arguments: object) -> Any:
        """Run `module.function` of tests/spark/jobs and return its value.  Raises: JobFailed.

        `conf` are settings of Spark's session, for this job only.
        """
        return self.ask({"job": job, "arguments": arguments, "conf": dict(conf)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
