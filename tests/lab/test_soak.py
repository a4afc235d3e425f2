"""Long runs go on where they were ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.jars import ROOT
from tests.lab.soak import Progress, lines


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    with Progress("cuts", 5, tmp_path) as first:
        first.add(2, seed=7, acknowledged=100)
    assert "2/5: 100 acknowledged; seeds [7] | to be continued |" in lines("cuts", tmp_path)[0]
    with Progress("cuts", 5, tmp_path) as second:
        assert (second.done, second.left) == (2, 3)
        second.add(3, seed=8, acknowledged=1_000_050)
        assert second.left == 0
    assert "5/5: 1,000,150 acknowledged; seeds [7, 8] | passed |" in lines("cuts", tmp_path)[0]
    assert lines("kills", tmp_path) == []


def test_a_run_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Progress("cuts", 5, tmp_path).add(2)
    monkeypatch.setenv("RESTART", "1")
    assert Progress("cuts", 5, tmp_path).left == 5


def test_of_a_part_without_counts_nothing_is_said() -> None:
    words = [sys.executable, "-m", "tests.lab.soak", "storms"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
