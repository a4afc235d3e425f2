"""A sample of mutants, of which a test must notice each one that is not judged equivalent."""

import os
import subprocess
import sys

import pytest

from tests.mutants.mutant import ROOT


@pytest.mark.soak
def test_mutants_are_killed(capfd: pytest.CaptureFixture[str]) -> None:
    """By a process of its own, which collects the other rooms' tests; it prints as it goes."""
    seed = os.environ.get("MUTANTS_SEED")
    words = [sys.executable, "-m", "tests.mutants", *(["--seed", seed] if seed else [])]
    with capfd.disabled():
        done = subprocess.run(words, cwd=ROOT, check=False)
    assert done.returncode == 0, "open mutants are listed above"
