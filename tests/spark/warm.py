"""A warm Spark: one process that runs jobs and commands without a new JVM for each (worker.py)."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.spark.child import SparkChild
from tests.spark.environment import ROOT, Spark

MASTER: Final = "local[2]"
REPEATABLE: Final = frozenset({"--conf"})


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str


class WarmSpark(SparkChild):
    """One running Spark; its JVM starts with the first job or command that needs it."""

    def __init__(
        self,
        spark: Spark,
        directory: Path,
        *,
        master: str = MASTER,
        conf: Mapping[str, str] = {},
        env: Mapping[str, str] = {},
    ) -> None:
        jars = [str(jar) for jar in spark.connector_jars()]
        options = json.dumps({"master": master, "conf": {**spark.small, **conf}, "jars": jars})
        super().__init__(spark, directory, "tests.spark.worker", options, environment(env))

    def run(self, job: str, conf: Mapping[str, str] = {}, /, **arguments: object) -> Any:
        """Call `package.module.function(spark, **arguments)` there.  Raises: JobFailed.

        `conf` are settings of Spark's session, for this job only.
        """
        return self.ask({"job": job, "arguments": arguments, "conf": dict(conf)})

    def command(self, *arguments: str) -> Result:
        """`odradek pipeline …` in that process.  Raises: JobFailed for a traceback.

        An option that is given again takes the place of the first: tests vary a line by its end.
        """
        return Result(**self.ask({"command": _last_of_each(arguments)}))


def _last_of_each(arguments: Sequence[str]) -> list[str]:
    given: list[str] = []
    words = iter(arguments)
    for word in words:
        if word.startswith("--") and word in given and word not in REPEATABLE:
            given[given.index(word) + 1] = next(words)
        else:
            given.append(word)
    return given


def environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """What the children get: this checkout, and nothing of Spark that the machine has set."""
    kept = {name: value for name, value in os.environ.items() if "SPARK_" not in name}
    return {**kept, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **more}
