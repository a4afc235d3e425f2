"""A broker in a child process, which is how a broker under test runs by default.

The child's standard input is a pipe whose other end only this process holds: whatever ends this
process, even SIGKILL, closes the pipe, and `odradek serve --stop-with-stdin` stops. Unlike
PR_SET_PDEATHSIG, this does not depend on the thread that started the child.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from .errors import BrokerFailed, hides
from .ready import Ready, Start
from .scratch import write_for_owner

__tracebackhide__ = hides
STOP_TIMEOUT_S: Final = 20.0
LOG_LINES_IN_ERRORS: Final = 40
READY: Final = re.compile(
    rb"odradek ready: (?P<endpoints>\S+) brokers?=(?P<broker_ids>[\d,]+)"
    rb" data=(?P<data>.*) startup_ms=(?P<startup_ms>\d+)\n"
)
ADMIN: Final = re.compile(rb"odradek admin: http://\S+/\n")
ENDPOINT: Final = re.compile(r"[A-Z_]+://(?P<host>\S+):(?P<port>\d+)")
# Settings from the environment would make a test depend on the machine it runs on.
NOT_INHERITED: Final = ("ODRADEK_", "KAFKA_")
# The ends of settings that hold secrets: other users of the machine can see a command line.
SECRETS: Final = (".password", ".token", ".jaas.config", ".keystore.key")


class ChildBroker:
    """`odradek serve` as a child; `start` may follow `stop` or `kill`."""

    def __init__(self, log_path: Path, *, start_timeout_s: float) -> None:
        self._log_path = log_path
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the child is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The child's process id; None if it does not run."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def log(self) -> str:
        """What the child wrote to stderr, in all its starts."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self, given: Start) -> Ready:
        """Start it, and return once it serves.

        Raises: BrokerFailed.
        """
        if self._process is not None:
            self._forget()  # one that ended on its own
        self._process = self._spawn(self._command(given))
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + self._start_timeout_s
        line = first_line(self._process.stdout, deadline_s)
        if found := READY.fullmatch(line):
            line = first_line(self._process.stdout, deadline_s)
            if ADMIN.fullmatch(line):
                return _ready(found)
        if line.endswith(b"\n"):
            reason = f"printed {line!r} instead of where it is"
        elif time.monotonic() < deadline_s and self._has_ended():
            reason = f"ended with exit code {self._process.returncode} instead of starting"
        else:
            reason = f"was not ready after {self._start_timeout_s:g} s"
        self.kill()
        raise self.failure(reason)

    def stop(self) -> None:
        """Stop it with SIGTERM.  Raises: BrokerFailed if that fails or it had ended on its own."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        self.wake()
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure("did not stop on SIGTERM") from None
        self._forget()
        if code != 0:
            raise self.failure(f"ended with exit code {code}")

    def kill(self) -> None:
        """Kill it with SIGKILL, as in a crash."""
        if self._process is not None:
            self._process.kill()  # also if it is stopped by SIGSTOP
            self._process.wait()
            self._forget()

    def wake(self) -> None:
        """Let it go on if it is stopped by SIGSTOP."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send it a signal, such as SIGSTOP.  Raises: BrokerFailed if it does not run."""
        if self._process is None or not self.running:
            raise BrokerFailed("the broker does not run")
        self._process.send_signal(number)

    def failure(self, what: str) -> BrokerFailed:
        """An error that says what the broker did, with the end of its log."""
        return BrokerFailed(f"the broker {what}\n{self._log_tail()}")

    def _command(self, given: Start) -> list[str]:
        command = [sys.executable, "-P", "-m", "odradek", "serve", "--stop-with-stdin"]
        command += ["--data-dir", str(given.data_dir)]
        settings = given.of_process(port=given.first_port)
        secrets = {name: settings.pop(name) for name in given.settings if name.endswith(SECRETS)}
        if secrets:
            from odradek.broker.settings.properties import format_properties

            command += ["--config", self._file_of_owner("properties", format_properties(secrets))]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def _file_of_owner(self, kind: str, text: str) -> str:
        """The path of a file beside the log that only this user can read."""
        path = self._log_path.with_suffix(f".{kind}")
        write_for_owner(path, text)
        return str(path)

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)
        }
        with self._log_path.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                bufsize=0,  # raw files have no locks that a fork could find held
                start_new_session=True,  # Ctrl-C ends the tests, which then stop the broker
            )
        assert process.stdin is not None
        _lifelines.add(process.stdin)
        return process

    def _has_ended(self) -> bool:
        """Whether the process has ended: that takes a moment longer than the end of stdout."""
        assert self._process is not None
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _forget(self) -> None:
        assert self._process is not None
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process = None

    def _log_tail(self) -> str:
        return "\n".join(self.log.splitlines()[-LOG_LINES_IN_ERRORS:]) or "(it logged nothing)"


def _ready(found: re.Match[bytes]) -> Ready:
    broker_ids = map(int, found["broker_ids"].split(b","))
    endpoints = ENDPOINT.finditer(found["endpoints"].decode().replace(",", " "))
    addresses = {
        broker_id: (endpoint["host"], int(endpoint["port"]))
        for broker_id, endpoint in zip(broker_ids, endpoints, strict=True)
    }
    return Ready(addresses=addresses, startup_ms=int(found["startup_ms"]))


_lifelines: "weakref.WeakSet[IO[bytes]]" = weakref.WeakSet()


def _drop_lifelines() -> None:
    """Close the pipes in a forked child (multiprocessing), or it would keep brokers alive."""
    for stream in list(_lifelines):
        if not stream.closed:
            stream.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_lifelines)


def first_line(stream: IO[bytes], deadline_s: float) -> bytes:
    """The first line, or the part of it that came before the stream's end or the deadline."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                break
            part = os.read(stream.fileno(), 1)  # by the byte: later lines are left in the pipe
            if not part:
                break
            line += part
    return line
