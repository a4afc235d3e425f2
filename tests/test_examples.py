"""Hypothesis: the same examples each time, and others in `make soak PART=examples`."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import OTHERS, SAME, Repeats, repeated

ROOT: Final = Path(__file__).parent.parent
NUMBERS: Final = st.lists(st.integers(), max_size=5)


def drawn(profile: str) -> list[list[int]]:
    """What a test draws that has settings of its own."""
    found: list[list[int]] = []

    @settings(settings.get_profile(profile), max_examples=10)
    @given(NUMBERS)
    def draw(numbers: list[int]) -> None:
        found.append(numbers)

    draw()
    return found


def test_examples_are_the_same_each_time() -> None:
    assert settings.get_current_profile_name() == SAME
    assert settings().derandomize
    assert settings(max_examples=40).derandomize, "as tests say it of themselves"
    assert drawn(SAME) == drawn(SAME)
    assert drawn(OTHERS) != drawn(OTHERS)


@repeated(in_soak=20, each_s=300)
def test_other_examples(repeats: Repeats, capfd: pytest.CaptureFixture[str]) -> None:
    """Each test that draws examples, so many times, by processes of their own."""
    for seed in range(repeats.seed, repeats.seed + repeats.count):
        how = [f"--hypothesis-profile={OTHERS}", f"--hypothesis-seed={seed}"]
        words = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not java", *how]
        with capfd.disabled():
            print(f"\n{' '.join(how)}", flush=True)
            done = subprocess.run(words, cwd=ROOT, check=False)
        assert done.returncode == 0, f"{' '.join(how)}: what failed is listed above"
