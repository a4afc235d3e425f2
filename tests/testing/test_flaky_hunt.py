"""`make soak PART=fixture`: the tests of the fixtures again and again on a busy machine."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("ROUNDS", "200"))
ROUND_TIMEOUT_S = 1200
SPIN = "while True: pass"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """A process for each core that never waits."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.soak
@pytest.mark.timeout(ROUNDS * ROUND_TIMEOUT_S)
def test_nothing_fails_under_load() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not soak and not java"]
    for number in range(1, ROUNDS + 1):
        with busy():
            done = subprocess.run(
                [*command, str(HERE)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=ROUND_TIMEOUT_S,
            )
        assert done.returncode == 0, f"round {number} of {ROUNDS}:\n{done.stdout}"
