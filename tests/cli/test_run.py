"""`odradek run` as a process: what the command gets, the exit codes, the signals."""

import contextlib
import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence

import psutil
import pytest
from click.testing import CliRunner

from odradek.cli import main
from tests.cli.test_serve import line_of
from tests.support.waiting import until

DEADLINE_S = 30
SAYS_WHERE = """
import os, signal, sys, time
{}
print(os.environ["KAFKA_BOOTSTRAP_SERVERS"], os.getppid(), flush=True)
time.sleep(60)
"""
ENDS_WITH_5 = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))"


@contextlib.contextmanager
def started(
    words: Sequence[str], *, terminal: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """An `odradek run` in a group of processes of its own, perhaps of a terminal."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells have what runs behind them ignore it
        if terminal is not None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        [sys.executable, "-m", "odradek", "run", *words],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=prepare,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_until_gone(bootstrap_servers: str) -> None:
    host, _, port = bootstrap_servers.rpartition(":")

    def is_gone() -> bool:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return True
        return False

    until(is_gone, "the broker is gone", DEADLINE_S)


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
def test_with_tls_and_logins_the_environment_and_files_say_how_to_connect() -> None:
    script = (
        "import os, subprocess, sys\n"
        "from confluent_kafka import Producer\n"
        "names = ['bootstrap.servers', 'security.protocol', 'ssl.ca.location', 'sasl.mechanism']\n"
        "names += ['sasl.username', 'sasl.password']\n"
        "variables = {n: 'KAFKA_' + n.upper().replace('.', '_') for n in names}\n"
        "producer = Producer({n: os.environ[v] for n, v in variables.items()})\n"
        "producer.produce('orders', b'by the variables')\n"
        "assert producer.flush(30) == 0\n"
        "files = os.environ['ODRADEK_CLIENT_FILES']\n"
        "assert {os.stat(f'{files}/{n}').st_mode & 0o77 for n in os.listdir(files)} == {0}\n"
        "odradek = [sys.executable, '-m', 'odradek']\n"
        "consume = [*odradek, 'consume', 'orders', '-o', 'earliest', '-n', '1']\n"
        "subprocess.run(consume, check=True)\n"
        "alice = ['-F', f'{files}/users/alice/java.properties']\n"
        "subprocess.run([*odradek, 'topics', 'list', '-q', *alice], check=True)\n"
    )
    options = ["--tls", "--sasl", "SCRAM-SHA-512", "--topics", "orders,others"]
    options += ["--acl", "User:alice describe topic:orders"]
    with started([*options, "--", sys.executable, "-c", script]) as process:
        shown, log = process.communicate(timeout=DEADLINE_S * 2)
    assert (process.returncode, shown) == (0, "by the variables\norders\n"), log


@pytest.mark.wire
@pytest.mark.slow
def test_what_holds_for_other_brokers_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "of production")
    monkeypatch.setenv("ODRADEK_CONTEXT", "production")
    script = (
        "import os, subprocess, sys\n"
        "print(os.environ['KAFKA_SECURITY_PROTOCOL'], 'KAFKA_SASL_PASSWORD' in os.environ)\n"
        "subprocess.run([sys.executable, '-m', 'odradek', 'topics', 'list', '-q'])\n"
    )
    with started(["--topics", "here", "--", sys.executable, "-u", "-c", script]) as process:
        shown, log = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, shown, log) == (0, "PLAINTEXT False\nhere\n", "")


COUNTS_INTERRUPTS = """
import os, signal, sys, time
count = 0
def interrupt(*_):
    global count
    count += 1
    print("interrupted", flush=True)
signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(count))
print(os.environ["KAFKA_BOOTSTRAP_SERVERS"], flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.wire
@pytest.mark.slow
@pytest.mark.parametrize("of_terminal", [False, True])
def test_an_interrupt_reaches_the_command_once(of_terminal: bool) -> None:
    """Of the terminal, it has reached all of the group; what is sent to one process has not."""
    keyboard, terminal = pty.openpty()
    with started([sys.executable, "-c", COUNTS_INTERRUPTS], terminal=terminal) as process:
        servers = line_of(process.stdout).strip()
        if of_terminal:
            os.write(keyboard, b"\x03")
        else:
            process.send_signal(signal.SIGINT)
        assert line_of(process.stdout) == "interrupted\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 1
        wait_until_gone(servers)
    os.close(keyboard)
    os.close(terminal)


@pytest.mark.wire
@pytest.mark.slow
def test_sigterm_reaches_the_command() -> None:
    with started([sys.executable, "-c", SAYS_WHERE.format(ENDS_WITH_5)]) as process:
        servers = line_of(process.stdout).split()[0]
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


SECONDS_TO_END = 0.2
RUN_COMMAND = f"""
import os, sys
sys.platform = sys.argv.pop(1)
from odradek.cli import run_command
run_command.END_TIMEOUT_S = {SECONDS_TO_END}
sys.exit(run_command.run_command(sys.argv[1:], os.environ))
"""


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize(
    ("script", "code", "log"),
    [
        (
            "trap '' TERM; echo ready; exec sleep 60",
            128 + signal.SIGKILL,
            f"Error: the command went on for {SECONDS_TO_END} s after SIGTERM, and was killed\n",
        ),
        ("echo ready; kill -STOP $$; sleep 60", 128 + signal.SIGTERM, ""),
        ("trap 'exit 3' TERM; echo ready; kill -STOP $$; sleep 60", 3, ""),
    ],
)
def test_sigterm_ends_a_command_that_ignores_it_or_is_stopped(
    script: str, code: int, log: str, platform: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN_COMMAND, platform, "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert line_of(process.stdout) == "ready\n"
        if "STOP" in script:
            (command,) = psutil.Process(process.pid).children()
            until(lambda: command.status() == psutil.STATUS_STOPPED, timeout_s=DEADLINE_S)
        process.terminate()
        assert process.wait(DEADLINE_S) == code
        assert process.stderr is not None and process.stderr.read() == log


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


@pytest.mark.wire
@pytest.mark.slow
def test_users_with_any_name_have_files() -> None:
    names = ["alice@example.com", 'a/../"b', "a" * 300]
    acls = [word for name in names for word in ("--acl", f"User:{name} describe topic:orders")]
    file = "$ODRADEK_CLIENT_FILES/users/a%2F..%2F%22b/java.properties"
    script = f'{sys.executable} -m odradek topics list -q -F "{file}"'
    options = ["--topics", "orders", "--sasl", "PLAIN"]
    with started([*options, *acls[:-2], "--", "sh", "-c", script]) as process:
        shown, log = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, shown) == (0, "orders\n"), log
    with started([*options, *acls, "--", "true"]) as process:
        _, log = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert log.startswith("Error: cannot write the files for clients: ")
    assert log.endswith("aaa: File name too long\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--topics", "orders:many"], "topics: 'orders:many' is not NAME or NAME:PARTITIONS"),
        (["--topics", "orders:0"], "topics: 'orders' can't have 0 partitions"),
        (["--set", "num.partition=4"], "did you mean num.partitions?"),
        (["--set", "log.dirs=/tmp"], "sets log.dirs itself"),
        (["--brokers", "0"], "0 is not in the range"),
        (["--sasl", "GSSAPI"], "'GSSAPI' is not one of 'PLAIN', 'SCRAM-SHA-256', "),
        (["--acl", "User:a read topic:t"], "acls are about users, who must log in: give sasl"),
        (["--sasl", "PLAIN", "--acl", "a"], "the ACL 'a' is not like [allow|deny] User:NAME"),
        ([], "Missing argument 'COMMAND...'"),
    ],
)
def test_wrong_usage_is_refused(words: list[str], sentence: str) -> None:
    command = ["true"] if words else []
    result = CliRunner().invoke(main, ["run", *words, *command])
    assert result.exit_code == 2 and sentence in result.output
