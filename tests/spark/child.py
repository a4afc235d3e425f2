"""A process with one Spark that answers one JSON line for each that it is sent."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.spark.environment import Spark


class JobFailed(Exception):
    """A job raised; the message is its traceback."""


class SparkChild:
    """`python -m MODULE FD ARGUMENT` with a Spark's interpreter; it answers on the descriptor FD.

    An answer is {"value": …} or {"error": "traceback"}.  The process ends with its stdin.
    """

    def __init__(
        self, spark: Spark, directory: Path, module: str, argument: str, env: Mapping[str, str]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.spark = spark
        self.log = directory / "spark.log"
        answers, theirs = os.pipe()
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                [str(spark.python), "-m", module, str(theirs), argument],
                cwd=directory,
                env=env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                start_new_session=True,  # python and its JVM are one group, ended together
            )
        os.close(theirs)
        self._answers = os.fdopen(answers)

    def ask(self, request: Mapping[str, object]) -> Any:
        """Send a request and return the value of its answer.  Raises: JobFailed."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(request).encode() + b"\n")
        self._popen.stdin.flush()
        return self.take_answer()

    def take_answer(self) -> Any:
        """Wait for an answer.  Raises: JobFailed."""
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
        """End it in good order, or by force."""
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
