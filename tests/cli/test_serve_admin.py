"""`odradek serve --admin`: the lines about it, and what is refused at the start."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.test_serve import line_of, refusal, serving

pytestmark = [pytest.mark.wire, pytest.mark.slow]

ADMIN = re.compile(r"odradek admin: (http://127\.0\.0\.1:\d+)/\n")
LISTEN = ("--listen", "127.0.0.1:0")
MODULE = "odradek.broker.admin_api"


def test_the_line_after_the_ready_line_says_where_it_is(tmp_path: Path) -> None:
    arguments = (*LISTEN, "--data-dir", str(tmp_path / "a"), "--admin", "127.0.0.1:0")
    with serving(*arguments) as broker:
        line_of(broker.stdout)
        found = ADMIN.fullmatch(line_of(broker.stdout))
        assert found is not None
        with urllib.request.urlopen(f"{found[1]}/admin/v1/brokers") as answer:
            assert json.load(answer)["brokers"][0]["state"] == "running"
        port = found[1].rpartition(":")[2]
        taken = refusal(*LISTEN, "--data-dir", str(tmp_path / "b"), "--admin", f"127.0.0.1:{port}")
        assert taken == f"the admin API can't listen on 127.0.0.1:{port}: Address already in use"
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(30) == 0


def test_several_brokers_say_how_one_is_stopped_and_started(tmp_path: Path) -> None:
    arguments = (*LISTEN, "--data-dir", str(tmp_path), "--brokers", "3")
    with serving(*arguments, "--admin", "127.0.0.1:0") as broker:
        lines = [line_of(broker.stdout) for _ in range(3)]
        text = lines[2].removeprefix("odradek brokers: ")
        command = text.partition(" (or kill, start, pause, resume)\n")[0]
        assert command.startswith("curl --json '{}' http://127.0.0.1:")
        if shutil.which("curl"):
            for verb in ("stop", "start", "pause", "resume", "kill"):
                words = shlex.split(command.removesuffix("stop") + verb)
                done = subprocess.run([*words, "-sS"], capture_output=True, timeout=60)
                assert json.loads(done.stdout)["id"] == 2, (verb, done)
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0


def test_several_brokers_without_it_say_how_to_have_it(tmp_path: Path) -> None:
    with serving(*LISTEN, "--data-dir", str(tmp_path), "--brokers", "2") as broker:
        line_of(broker.stdout)
        assert "--admin 127.0.0.1:0 lets you stop" in line_of(broker.stdout)
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0


@pytest.mark.parametrize(
    ("listener", "sentence"),
    [
        ("0.0.0.0:0", "is not a loopback address, so everyone who reaches it could stop"),
        ("unix:/no/such/directory/socket", "No such file or directory"),
    ],
)
def test_what_is_no_address_or_not_safe_is_refused(
    listener: str, sentence: str, tmp_path: Path
) -> None:
    assert sentence in refusal(*LISTEN, "--data-dir", str(tmp_path), "--admin", listener)


def test_a_process_without_it_imports_nothing_of_it() -> None:
    look = (
        "import sys, odradek.cli.serve, odradek.broker.local_cluster; "
        f"print([name for name in sys.modules if name == 'h11' or name.startswith('{MODULE}.')])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
