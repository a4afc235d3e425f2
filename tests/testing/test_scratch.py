"""Temporary directories: removed by their owner, or by the next one if that was killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing.scratch import Scratch, remove_ownerless

ENDS_AT_ONCE = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from odradek.testing.scratch import Scratch
scratch = Scratch()
print(scratch.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_it_is_removed_when_closed(place: Path) -> None:
    scratch = Scratch()
    (scratch.path / "data").mkdir()
    scratch.close()
    scratch.close()
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_that_of_a_killed_process_is_removed_by_the_next(place: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", ENDS_AT_ONCE, place], capture_output=True, text=True, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    assert left.parent == place and left.exists()
    scratch = Scratch()
    assert list(place.iterdir()) == [scratch.path]
    scratch.close()


def test_others_are_left_alone(place: Path) -> None:
    other, unlocked, file = Scratch(), place / "odradek-mine", place / "odradek-notes"
    unlocked.mkdir()
    file.touch()
    remove_ownerless(place)
    assert sorted(place.iterdir()) == sorted([other.path, unlocked, file])
    other.close()


def test_the_lock_is_not_inherited(place: Path) -> None:
    scratch = Scratch()
    child = subprocess.Popen(["sleep", "60"])
    assert scratch._owner is not None
    os.close(scratch._owner)
    scratch._owner = None
    remove_ownerless(place)
    assert not scratch.path.exists()
    child.kill()
    child.wait()
    scratch.close()
