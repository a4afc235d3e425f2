"""`odradek run` as a process: what the command gets, the exit codes, the signals."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest
from click.testing import CliRunner

from odradek.cli import main
from tests.cli.test_serve import line_of

DEADLINE_S = 30
SAYS_WHERE = """
import os, signal, sys, time
{}
print(os.environ["KAFKA_BOOTSTRAP_SERVERS"], os.getppid(), flush=True)
time.sleep(60)
"""
ENDS_WITH_5 = "signal.signal(signal.{}, lambda *_: sys.exit(5))"


@contextlib.contextmanager
def started(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """An `odradek run` in a group of processes of its own, as in a terminal."""
    with subprocess.Popen(
        [sys.executable, "-m", "odradek", "run", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_until_gone(bootstrap_servers: str) -> None:
    host, _, port = bootstrap_servers.rpartition(":")
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return
        assert time.monotonic() < deadline_s, "the broker is still there"
        time.sleep(0.02)


@pytest.mark.wire
@pytest.mark.slow
def test_the_command_finds_brokers_and_topics_and_gives_the_exit_code() -> None:
    script = (
        "import json, os, sys, urllib.request\n"
        'url = os.environ["ODRADEK_ADMIN_URL"] + "/admin/v1/topics"\n'
        "with urllib.request.urlopen(url) as page:\n"
        '    print({t["name"]: len(t["partitions"]) for t in json.load(page)["topics"]})\n'
        'servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]\n'
        'assert servers == os.environ["ODRADEK_BOOTSTRAP_SERVERS"]\n'
        'print(len(servers.split(",")), sys.argv[1:])\n'
        "sys.exit(7)\n"
    )
    options = ["--topics", "a:6,b", "--topics", "c:2", "--brokers", "2"]
    with started([*options, "--", sys.executable, "-c", script, "--set", "-x"]) as process:
        shown, log = process.communicate(timeout=DEADLINE_S * 2)
    assert shown == "{'a': 6, 'b': 1, 'c': 2}\n2 ['--set', '-x']\n"
    assert (process.returncode, log) == (7, "")


@pytest.mark.wire
@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signals_reach_the_command(name: str) -> None:
    script = SAYS_WHERE.format(ENDS_WITH_5.format(name))
    with started([sys.executable, "-c", script]) as process:
        servers = line_of(process.stdout).split()[0]
        if name == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C
        else:
            process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 5, process.stderr and process.stderr.read()
        wait_until_gone(servers)


@pytest.mark.wire
@pytest.mark.slow
def test_a_signal_that_ends_the_command_gives_128_and_its_number() -> None:
    with started([sys.executable, "-c", SAYS_WHERE.format("")]) as process:
        line_of(process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 128 + signal.SIGTERM


@pytest.mark.wire
@pytest.mark.slow
def test_the_broker_ends_though_it_is_killed() -> None:
    with started([sys.executable, "-c", SAYS_WHERE.format("")]) as process:
        servers = line_of(process.stdout).split()[0]
        process.kill()
        wait_until_gone(servers)


@pytest.mark.wire
@pytest.mark.slow
def test_a_broker_that_ended_first_is_told() -> None:
    script = (
        "import os, psutil, signal\n"
        "(broker,) = [p for p in psutil.Process(os.getppid()).children() if p.pid != os.getpid()]\n"
        "broker.send_signal(signal.SIGKILL)\n"
    )
    with started([sys.executable, "-c", script]) as process:
        _, log = process.communicate(timeout=DEADLINE_S)
    assert log.endswith("Error: the broker ended with exit code -9\n") and "Traceback" not in log
    assert process.returncode == 1


@pytest.mark.wire
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["no-such-command"], 127, "cannot run no-such-command: No such file or directory"),
        (["/"], 126, "cannot run /: Permission denied"),
    ],
)
def test_what_cannot_be_run(words: Sequence[str], code: int, sentence: str) -> None:
    with started(words) as process:
        _, log = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, log) == (code, f"Error: {sentence}\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--topics", "orders:many"], "topics: 'orders:many' is not NAME or NAME:PARTITIONS"),
        (["--topics", "orders:0"], "topics: 'orders' can't have 0 partitions"),
        (["--set", "num.partition=4"], "did you mean num.partitions?"),
        (["--set", "log.dirs=/tmp"], "sets log.dirs itself"),
        (["--brokers", "0"], "0 is not in the range"),
        ([], "Missing argument 'COMMAND...'"),
    ],
)
def test_wrong_usage_is_refused(words: list[str], sentence: str) -> None:
    command = ["true"] if words else []
    result = CliRunner().invoke(main, ["run", *words, *command])
    assert result.exit_code == 2 and sentence in result.output
