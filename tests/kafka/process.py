"""A server process of the tests: started, watched until it answers, ended by its own pid."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr, Final

from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.testing.ports import HOST, HeldPort
from tests.support.connections import RawConnection
from tests.support.secrets import line_with_secret, told_by_servers

POLL_S: Final = 0.02
STOP_TIMEOUT_S: Final = 60.0
_held: Final[list[HeldPort]] = []


@contextmanager
def killed_at_the_end(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """A child that is gone after the `with`; Popen's own waits until it ends, if ever."""
    with process:
        try:
            yield process
        finally:
            process.kill()


class ServerFailed(Exception):
    """A server did not start, or did not stop; the message ends with what it printed."""


def free_port(host: str = HOST) -> int:
    """A port for a server that can't pick one itself, or that comes back on the same one.

    Nobody else is given it as long as this process lives, whether the server runs or not.
    """
    _held.append(HeldPort(host))
    return _held[-1].port


class ServerProcess:
    """One child process, its output in a file; `start` may follow `stop` or `kill`."""

    def __init__(self, command: Sequence[str], output: Path, env: dict[str, str] | None = None):
        self.command = list(command)
        self.output = output
        self.env = env
        self.popen: subprocess.Popen[bytes] | None = None
        self._searched_bytes = 0

    @property
    def pid(self) -> int:
        assert self.popen is not None, "not started"
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def start(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Start it and return once `ready()` is true.  Raises: ServerFailed."""
        assert not self.alive
        with self.output.open("ab") as sink:
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(self.env or {})},
            )
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self.popen.poll() is not None:
                raise ServerFailed(f"exit code {self.popen.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"not ready after {timeout_s:.0f} s\n{self.tail()}")
            time.sleep(POLL_S)

    def stop(self) -> int | None:
        """End it with SIGTERM and return its exit code.  Raises: ServerFailed."""
        if self.popen is None:
            return None
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            code = self.popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"did not stop on SIGTERM\n{self.tail()}") from None
        self._search_output()
        return code

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()
            self._search_output()

    def _search_output(self) -> None:
        with self.output.open("rb") as printed:
            printed.seek(self._searched_bytes)
            new = printed.read()
        self._searched_bytes += len(new)
        line = line_with_secret(new.decode(errors="replace"))
        if line is not None:
            told_by_servers.append(f"a secret in {self.output}: {line}")

    def tail(self, lines: int = 30) -> str:
        """The last lines it printed."""
        if not self.output.exists():
            return "(no output)"
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])


class BrokerServer:
    """A broker in a process of its own: what is the same for all kinds, however they are started.

    `start` and `stop` are theirs; `start` may follow `stop` or `kill`: same port, same files.
    """

    def __init__(self, directory: Path, host: str, port: int) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.host = host
        self.port = port
        self._process = ServerProcess([], directory / "broker.out")

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.alive

    @property
    def output(self) -> str:
        """The last 200 lines of what it printed."""
        return self._process.tail(200)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


def serves_metadata(host: str, port: int) -> bool:
    """Whether a Kafka broker there names itself and a controller."""
    try:
        with RawConnection(host, port, timeout_s=5) as connection:
            answer = connection.exchange(MetadataRequest(topics=[]), 1)
    except OSError:
        return False
    return bool(answer.brokers) and answer.controller_id >= 0
