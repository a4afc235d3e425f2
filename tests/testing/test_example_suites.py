"""The suites of `examples/`: each language's client, and brokers that fail by rule.

They download their clients, so they run in `make soak PART=situations`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wire, pytest.mark.soak, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 900
RUN = "odradek run --"


def run(language: str, command: str, directory: Path) -> str:
    """Run a suite in a copy of its folder, with this Python's `odradek` on the path."""
    program = command.removeprefix(RUN).split()[0]
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    copy = directory / language
    if not copy.exists():
        ignored = shutil.ignore_patterns("node_modules", "target")
        shutil.copytree(EXAMPLES / language, copy, ignore=ignored)
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command.split(),
        cwd=copy,
        env={**os.environ, "PATH": beside},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_go(tmp_path: Path) -> None:
    shown = run("go", f"{RUN} go test -count=1 -v ./...", tmp_path)
    assert shown.count("--- PASS: ") == 4


def test_node(tmp_path: Path) -> None:
    run("node", "npm install --no-audit --no-fund", tmp_path)
    shown = run("node", f"{RUN} npm test", tmp_path)
    assert " pass 4\n" in shown and " fail 0\n" in shown


@pytest.mark.parametrize("command", ["mvn -B test", f"{RUN} mvn -B test"])
def test_junit(command: str, tmp_path: Path) -> None:
    assert "Tests run: 4, Failures: 0, Errors: 0" in run("junit5", command, tmp_path)
