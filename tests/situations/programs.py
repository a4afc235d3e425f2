"""The client programs of `clients/`: how each is made ready, and a running one.

`python -m tests.situations.programs` makes all ready. The first time it takes a minute, most of it
for the build of franz-go; what is fetched and built is kept in `.cache/`.
"""

import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.testing import Broker
from tests.kafka import java
from tests.kafka.jars import CACHE, ROOT

CLIENTS: Final = Path(__file__).parent / "clients"
BUILD_TIMEOUT_S: Final = 600
DEED_TIMEOUT_S: Final = 60
Environment = Mapping[str, str]
NOTHING: Final[Environment] = MappingProxyType({})


class NotFetched(Exception):
    """A client library could not be fetched."""


class Prepared(NamedTuple):
    """How a client program is started; servers and the address of the admin API are appended."""

    command: Sequence[str]
    environment: Environment = NOTHING


def python(module: str) -> Prepared:
    return Prepared([sys.executable, "-m", f"tests.situations.clients.{module}"])


def kafka_java() -> Prepared:
    """The JVM compiles the one file as it starts."""
    return Prepared(java.command_line("3.9.2", str(CLIENTS / "java" / "Situations.java")))


def kafkajs() -> Prepared:
    """KafkaJS as package-lock.json names it.  It is fetched once.

    Raises: NotFetched.
    """
    source = CLIENTS / "node"
    target = CACHE / "node"
    lock = (source / "package-lock.json").read_bytes()
    stamp = target / ".complete"
    if not stamp.exists() or stamp.read_bytes() != lock:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".node-", dir=target.parent) as name:
            fresh = Path(name) / "node"
            shutil.copytree(source, fresh)
            npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            _fetch("KafkaJS", npm, fresh)
            (fresh / ".complete").write_bytes(lock)
            shutil.rmtree(target, ignore_errors=True)
            fresh.rename(target)
    modules = {"NODE_PATH": str(target / "node_modules")}
    return Prepared(["node", str(source / "situations.cjs")], modules)


def franz_go() -> Prepared:
    """franz-go as go.sum names it.  It is built once; then `go build` takes 0.3 s.

    Raises: NotFetched.
    """
    source = CLIENTS / "go"
    program = CACHE / "go" / "situations"
    own = {
        "GOMODCACHE": str(CACHE / "go" / "modules"),
        "GOCACHE": str(CACHE / "go" / "build"),
        "GOFLAGS": "-modcacherw",  # so that it can be removed
    }
    _fetch("franz-go", ["go", "mod", "download"], source, own)
    _run(["go", "build", "-o", str(program), "."], source, own)
    return Prepared([str(program)])


class Client(NamedTuple):
    """A client: the commands that it needs, and how it is made ready."""

    needs: Sequence[str]
    prepare: Callable[[], Prepared]

    def missing(self) -> str | None:
        """The first command that it needs and that is not here."""
        return next((each for each in self.needs if shutil.which(each) is None), None)


ALL: Final = {
    "Java": Client(["java"], kafka_java),
    "librdkafka": Client([], lambda: python("confluent")),
    "kafka-python": Client([], lambda: python("kafka_python")),
    "aiokafka": Client([], lambda: python("aiokafka_client")),
    "KafkaJS": Client(["node", "npm"], kafkajs),
    "franz-go": Client(["go"], franz_go),
}


class Program:
    """A client program that runs."""

    def __init__(self, prepared: Prepared, broker: Broker) -> None:
        self._process = subprocess.Popen(
            [*prepared.command, broker.bootstrap_servers, broker.admin_url],
            cwd=ROOT,
            env={**os.environ, **prepared.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def outcome(self, deed: str, rules: Sequence[str]) -> str:
        """Let it make the rules and do the deed: `done …`, or the name of an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([deed, *rules]) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], DEED_TIMEOUT_S)
        assert ready, f"{deed}: no outcome within {DEED_TIMEOUT_S} s"
        first, _, rest = self._process.stdout.readline().rstrip("\n").partition(" ")
        if first == "failed":
            return ErrorCode(int(rest)).name if rest.isdecimal() else rest
        return f"{first} {rest}".strip()

    def close(self) -> None:
        """Kill it: what its clients have open is of no interest."""
        self._process.kill()
        self._process.communicate()


def _fetch(what: str, command: Sequence[str], folder: Path, more: Environment = NOTHING) -> None:
    """Run a command that downloads a library.  Raises: NotFetched."""
    try:
        _run(command, folder, more)
    except AssertionError as error:
        raise NotFetched(f"{what} cannot be fetched") from error


def _run(command: Sequence[str], folder: Path, more: Environment = NOTHING) -> None:
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stdout


def main() -> None:
    """Make ready what can be; print a line each."""
    for name, client in ALL.items():
        command = client.missing()
        try:
            if command is None:
                client.prepare()
            print(f"{name}: {'ready' if command is None else f'there is no {command}'}")
        except NotFetched as error:
            print(f"{name}: {error}")


if __name__ == "__main__":
    main()
