"""What differs on a terminal: tables with a rule below their head, a progress bar on stderr."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.wire.servers import Server

from .conftest import PATIENTLY, Run

pytestmark = pytest.mark.wire
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "CI"}


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """The screen's side and the program's side of a pseudo terminal."""
    screen, program = pty.openpty()
    try:
        yield screen, program
    finally:
        os.close(screen)


def shown(screen: int) -> str:
    """What was written until the last program closed its side."""
    parts = []
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError:  # Linux: the other side is closed
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


def test_table_on_a_terminal_and_columns_in_a_pipe(run: Run, topic: str, cluster: Server) -> None:
    command = [sys.executable, "-m", "odradek", "topics", "list"]
    command += [*PATIENTLY, "-b", cluster.bootstrap_servers]
    with (
        terminal() as (screen, program),
        subprocess.Popen(command, stdout=program, env=ENVIRONMENT),
    ):
        os.close(program)
        table = shown(screen)
    assert "──" in table and topic in table
    piped = run("topics", "list").stdout.decode()
    assert piped.startswith("TOPIC") and "─" not in piped and "\x1b" not in piped


@pytest.mark.parametrize("ci", [False, True])
def test_progress_bar_is_on_stderr_and_not_in_ci(
    run: Run, topic: str, cluster: Server, ci: bool
) -> None:
    assert run("produce", topic, stdin=b"line\n" * 1000).returncode == 0
    command = [sys.executable, "-m", "odradek", "consume", topic, "--until", "now"]
    environment = {**ENVIRONMENT, **({"CI": "1"} if ci else {})}
    with (
        terminal() as (screen, program),
        subprocess.Popen(
            [*command, *PATIENTLY, "-b", cluster.bootstrap_servers],
            stdout=subprocess.PIPE,
            stderr=program,
            env=environment,
        ) as consume,
    ):
        os.close(program)
        assert consume.stdout is not None
        assert consume.stdout.read() == b"line\n" * 1000
        bar = shown(screen)
    assert bar == "" if ci else "1000/1000" in bar
