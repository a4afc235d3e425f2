"""The pytest side of a Spark session that runs in a process of its own (jobs/worker.py)."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.spark.environment import ROOT, Spark


class JobFailed(Exception):
    """A job raised; the message is Spark's traceback."""


class SparkSession:
    """One running Spark.  `run` sends it a job, `kill` ends it as a crash would."""

    def __init__(self, spark: Spark, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.spark = spark
        self.log = directory / "spark.log"
        answers, theirs = os.pipe()
        command = [str(spark.python), "-m", "tests.spark.jobs.worker", str(theirs)]
        command.append(",".join(str(jar) for jar in spark.connector_jars()))
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                start_new_session=True,  # python and its JVM are one group, ended together
            )
        os.close(theirs)
        self._answers = os.fdopen(answers)
        self._take_answer()

    def run(self, job: str, conf: Mapping[str, str] = {}, /, **arguments: object) -> Any:
        """Run `module.function` of tests/spark/jobs and return its value.  Raises: JobFailed.

        `conf` are settings of Spark's session, for this job only.
        """
        assert self._popen.stdin is not None
        request = json.dumps({"job": job, "arguments": arguments, "conf": dict(conf)})
        self._popen.stdin.write(request.encode() + b"\n")
        self._popen.stdin.flush()
        return self._take_answer()

    def _take_answer(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise JobFailed("Spark ended:\n" + self.log.read_text(errors="replace")[-3000:])
        answer = json.loads(line)
        if "error" in answer:
            raise JobFailed(answer["error"])
        return answer["value"]

    def kill(self) -> None:
        """SIGKILL python and JVM."""
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._close()

    def close(self) -> None:
        """End the session in good order, or by force."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        self._popen.wait()
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
