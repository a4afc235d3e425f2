"""A verifiable client as its parent sees it: a child process that tells its progress."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.support.waiting import until

ERRORS_KEPT: Final = 50


class ChildFailed(AssertionError):
    """A client's process ended with an error, or did not end."""


class Child:
    """One process; `progress` is the last it told.  It ends when its stdin is closed."""

    def __init__(self, name: str, command: Sequence[str], told: Mapping[str, Any]) -> None:
        self.name = name
        self.progress: dict[str, Any] = {}
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [*command, json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._threads = [
            threading.Thread(target=hear, name=f"{name} {hear.__name__}", daemon=True)
            for hear in (self._hear, self._moan)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask_to_stop(self) -> None:
        """Let it finish what it does.  Returns at once."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def wait(self, timeout_s: float) -> None:
        """Until it has ended well.  Raises: ChildFailed."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"{self.name} did not end in {timeout_s:.0f} s: {self}") from None
        for thread in self._threads:
            thread.join(5)
        if code:
            raise ChildFailed(f"{self.name} ended with {code}: {self}")

    def kill(self) -> None:
        """SIGKILL, and everything it had open closed."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(5)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def until(self, name: str, least: float, timeout_s: float) -> None:
        """Wait until it has told of at least so much.  Raises: ChildFailed, NotYet."""

        def has_told() -> bool:
            if self.progress.get(name, 0) >= least:
                return True
            if not self.alive:
                raise ChildFailed(f"{self.name} has ended before {name} >= {least}: {self}")
            return False

        until(has_told, lambda: f"{self.name}: {name} >= {least}: {self}", timeout_s)

    def __str__(self) -> str:
        return f"progress={self.progress} errors={''.join(self.errors)}"

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            if text.startswith("{"):
                self.progress = json.loads(text)

    def _moan(self) -> None:
        assert self._process.stderr is not None
        for text in self._process.stderr:
            self.errors.append(text)
            del self.errors[:-ERRORS_KEPT]


def python(module: str) -> list[str]:
    """The command line of one of ours beside this file."""
    return [sys.executable, "-m", f"tests.lab.verify.{module}"]
