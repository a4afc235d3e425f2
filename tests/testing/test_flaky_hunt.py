"""`make soak PART=fixture`: the tests of the fixtures again and again on a busy machine.

Several rounds run at once, more than the machine has cores for: each is the load of the others.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

import pytest

from tests.lab.soak import Progress

ROUNDS: Final = int(os.environ.get("ROUNDS", "200"))
LANES: Final = 4 * (os.cpu_count() or 1)
ROUND_TIMEOUT_S: Final = 1800
HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
TAIL: Final = 20_000
"""How many characters of a round that failed are shown."""


def one_round(directory: Path) -> str:
    """Run them once; return what they printed if one failed, else nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not soak and not java"]
    # A package is built the same way each time: that would be a tenth of the hunt's work.
    command += ["--ignore", str(HERE / "test_wheel.py"), "--basetemp", str(directory), str(HERE)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ROUND_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as late:
        return f"not done after {ROUND_TIMEOUT_S} s:\n{str(late.output)[-TAIL:]}"
    return done.stdout[-TAIL:] if done.returncode else ""


@pytest.mark.soak
@pytest.mark.timeout(ROUNDS * ROUND_TIMEOUT_S)
def test_nothing_fails_under_load(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    failed = []
    with Progress("fixture", ROUNDS) as progress, ThreadPoolExecutor(LANES) as lanes:
        rounds = [
            lanes.submit(one_round, tmp_path / f"round-{number}") for number in range(progress.left)
        ]
        for ended in as_completed(rounds):
            if printed := ended.result():
                failed.append(printed)
                with capfd.disabled():  # shown now: the hunt goes on and looks for all there are
                    print(printed, flush=True)
            else:
                progress.add(1)
    assert not failed, f"{len(failed)} of {len(rounds)} rounds failed"
