"""How the pipeline's tests run commands in processes of their own."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.spark.environment import Spark
from tests.spark.warm import MASTER, Result, environment
from tests.support.waiting import until

RUN_TIMEOUT_S: Final = 240
WAIT_TIMEOUT_S: Final = 240
"""A Spark may have to start first."""


@dataclass(frozen=True, slots=True)
class Commands:
    """`python -m odradek pipeline …` with the interpreter of one Spark, in a process of its own."""

    spark: Spark

    def line(
        self,
        *arguments: str,
        conf: Mapping[str, str] = {},
        master: str = MASTER,
        jars: Sequence[Path] = (),
    ) -> list[str]:
        """The command line: a small Spark, the cached connector unless other jars are given."""
        paths = jars or self.spark.connector_jars()
        line = [str(self.spark.python), "-m", "odradek", "pipeline", *arguments]
        line += ["--master", master, "--jars", ",".join(map(str, paths))]
        for name, value in {**self.spark.small, **conf}.items():
            line += ["--conf", f"{name}={value}"]
        return line

    def run(
        self,
        *arguments: str,
        timeout_s: float = RUN_TIMEOUT_S,
        env: Mapping[str, str] = {},
        **rest: Any,
    ) -> Result:
        """Run a command to its end."""
        done = subprocess.run(
            self.line(*arguments, **rest),
            env=environment(env),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(
        self, *arguments: str, output: Path, env: Mapping[str, str] = {}, **rest: Any
    ) -> "RunningCommand":
        """Start a command; what it prints goes to the file `output`."""
        return RunningCommand(self.line(*arguments, **rest), output, env)


class RunningCommand:
    """A command and its JVM, in a process group of their own."""

    def __init__(self, line: list[str], output: Path, env: Mapping[str, str] = {}) -> None:
        self.output = output
        with output.open("ab") as printed:
            self.popen = subprocess.Popen(
                line,
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Return once a condition holds while the command runs."""

        def holds() -> object:
            assert self.popen.poll() is None, self.printed
            return condition()

        until(holds, lambda: self.printed, WAIT_TIMEOUT_S)

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM to the job, as `kill` and Docker do; its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL to job, JVM and Python workers at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
