"""A broker of the chosen `--target` for the commands, and a way to run them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from click.testing import CliRunner

from odradek.cli import main
from tests.support.brokers import SharedServer
from tests.wire.servers import Server

Run = Callable[..., subprocess.CompletedProcess[bytes]]
# A broker that is there answers, also after the machine has stood still for five seconds: that is
# how long the commands themselves wait for a first answer.
PATIENTLY: Final = ("-X", "socket.connection.setup.timeout.ms=30000")


@pytest.fixture(scope="session")
def cluster(shared_server: SharedServer) -> Server:
    """The commands work against any Kafka broker: `--target kafka-3.9` runs them on Apache's."""
    return shared_server({})


def run_odradek(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command line as a user would."""
    command = [sys.executable, "-m", "odradek", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60)


def run_here(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in this process, which takes a fraction of the time of one of its own."""
    result = CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)
    return subprocess.CompletedProcess(
        arguments, result.exit_code, result.stdout_bytes, result.stderr_bytes
    )


def started(servers: str, *arguments: str, stdin: int | None = None) -> "subprocess.Popen[bytes]":
    """A command that runs while the test goes on; its output is piped."""
    command = [sys.executable, "-m", "odradek", *arguments, *PATIENTLY, "-b", servers]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture
def run(cluster: Server) -> Run:
    """Run a command against the cluster."""

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return run_here(*arguments, *PATIENTLY, "-b", cluster.bootstrap_servers, stdin=stdin)

    return run


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty topic with 3 partitions."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    created = run("topics", "create", name, "-p", "3")
    assert created.returncode == 0, created.stderr
    yield name
    run("topics", "delete", name, "--if-exists")
