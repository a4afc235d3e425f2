"""A test that prints a secret fails, and so does the end of a server that prints one."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.process import ServerProcess

from .secrets import HUNTER2, PENCIL, line_with_secret, plant, told_by_servers

ROOT = Path(__file__).resolve().parents[2]


def test_which_line_tells_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.secrets._planted", [HUNTER2, "cil, ="])
    assert line_with_secret("a\nb") is None
    assert line_with_secret(f"a\nits {HUNTER2}!\nb") == f"its {HUNTER2}!"
    assert line_with_secret(json.dumps(PENCIL)) is not None
    assert plant("tulip") == "tulip"
    assert line_with_secret("two tulips") == "two tulips"


@pytest.mark.parametrize("ends", [ServerProcess.kill, ServerProcess.stop])
def test_a_server_that_prints_a_secret(
    ends: Callable[[ServerProcess], object], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    server = ServerProcess(["sh", "-c", f"echo {HUNTER2}; exec sleep 1000"], output)
    server.start(lambda: output.read_text() != "", timeout_s=60)
    ends(server)
    assert told_by_servers == [f"a secret in {output}: hunter2"]
    told_by_servers.clear()
    assert not server.alive


@pytest.mark.slow
def test_a_test_that_prints_a_secret(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import logging\n"
        f"def test_printed(): print({HUNTER2!r})\n"
        f"def test_logged(): logging.warning('it is %s', {HUNTER2!r})\n"
        "from tests.support.secrets import told_by_servers\n"
        "def test_told(): told_by_servers.append('a server told')\n"
        "def test_neither(): print('ok')\n"
    )
    ours = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", f"--rootdir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", *ours, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "a secret in Captured stdout call: hunter2" in done.stdout
    assert "a secret in Captured log call" in done.stdout
    assert "a server told" in done.stdout
