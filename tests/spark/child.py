"""A process with one Spark that answers one JSON line for each that it is sent."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.spark.environment import Spark


class JobFailed(Exception):
    """A job raised; the message is its traceback."""


class SparkChild:
    """`python -m MODULE FD ARGUMENT` with a Spark's interpreter; it answers on the descriptor FD.

    An answer is {"value": …} or {"error": "traceback"}.  The process ends with its stdin.

    Answers have no number: when a test that waits is interrupted, what is still to come would be
    taken for the next answer.  So the process is killed, and the next request starts another.
    """

    def __init__(
        self, spark: Spark, directory: Path, module: str, argument: str, env: Mapping[str, str]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.spark = spark
        self.log = directory / "spark.log"
        self._command = (str(spark.python), "-m", module)
        self._argument = argument
        self._env = dict(env)
        self._start()

    def _start(self) -> None:
        answers, theirs = os.pipe()
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [*self._command, str(theirs), self._argument],
                cwd=self.log.parent,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                start_new_session=True,  # python and its JVM are one group, ended together
            )
        os.close(theirs)
        self._answers = os.fdopen(answers)
        self.is_killed = False

    def ask(self, request: Mapping[str, object]) -> Any:
        """Send a request and return the value of its answer.  Raises: JobFailed."""
        try:
            if self.is_killed:
                self._start()
            assert self._popen.stdin is not None
            self._popen.stdin.write(json.dumps(request).encode() + b"\n")
            self._popen.stdin.flush()
            answer = self.take_answer()
        except BaseException:
            self.kill()
            raise
        if "error" in answer:
            raise JobFailed(answer["error"])
        return answer["value"]

    def take_answer(self) -> dict[str, Any]:
        """Wait for an answer.  Raises: JobFailed, if it ends without one."""
        line = self._answers.readline()
        if not line:
            raise JobFailed("Spark ended:\n" + self.log.read_text(errors="replace")[-3000:])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """SIGKILL python and JVM."""
        self.is_killed = True
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._close()

    def close(self) -> None:
        """End it in good order, or by force."""
        self._close_stdin()
        try:
            self._popen.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        self._popen.wait()
        self._close_stdin()
        self._answers.close()

    def _close_stdin(self) -> None:
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):  # what it did not read any more is still to be flushed
            self._popen.stdin.close()
