"""A client in a process of its own, which is ended and started again."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

END_TIMEOUT_S: Final = 60.0
# A JVM that has come to its end at SIGTERM; a Python that had not begun yet.
CLEAN: Final = (0, 128 + signal.SIGTERM, -signal.SIGTERM)


class ClientProcess:
    """A victim (tests/support/killing.py); all its output is in one file."""

    def __init__(self, command: Sequence[str], path: Path) -> None:
        self.path = path
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        return self.path.read_text(errors="replace") if self.path.exists() else ""

    def start(self) -> None:
        with self.path.open("ab") as sink:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(END_TIMEOUT_S) in CLEAN, self.output
