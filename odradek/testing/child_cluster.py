"""Several brokers in one child process, which reads commands from its standard input."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .child import ChildBroker, first_line
from .errors import BrokerFailed, hides

__tracebackhide__ = hides
COMMAND_TIMEOUT_S: Final = 30.0


class ChildCluster(ChildBroker):
    """`odradek.testing.cluster_process` as a child."""

    def __init__(self, log_path: Path, *, brokers: int, start_timeout_s: float) -> None:
        super().__init__(log_path, start_timeout_s=start_timeout_s)
        self._brokers = brokers

    def command(self, command: str, broker_id: int) -> None:
        """Send a command for one broker, and wait for the answer.  Raises: BrokerFailed."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise BrokerFailed("the brokers do not run")
        try:
            process.stdin.write(f"{command} {broker_id}\n".encode())
        except OSError as error:
            raise self.failure(f"can't be told to {command}: {error}") from error
        answer = first_line(process.stdout, time.monotonic() + COMMAND_TIMEOUT_S)
        if not answer.endswith(b"\n"):
            raise self.failure(f"did not {command} broker {broker_id}")
        if answer != b"\n":
            raise BrokerFailed(answer.decode().strip())

    def _command(
        self, ports: Sequence[int], data_dir: Path, protocol: str, settings: Mapping[str, str]
    ) -> list[str]:
        given = {
            "brokers": self._brokers,
            "data_dir": str(data_dir),
            "ports": ports,
            "settings": {**settings, "listeners": f"{protocol}://127.0.0.1:0"},
        }
        return [sys.executable, "-P", "-m", "odradek.testing.cluster_process", json.dumps(given)]

    def _ask_to_stop(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        process.stdin.close()
