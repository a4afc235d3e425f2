"""The pytest plugin is imported in every run of every user: it must cost nothing."""

import re
import subprocess
import sys

import pytest

IMPORT_US_MAX = 5000
TRIES = 20


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=60
    )


@pytest.mark.slow
def test_plugin_imports_nothing_of_odradek() -> None:
    code = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport _odradek_pytest\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert python("-c", code).stdout.split() == ["_odradek_pytest"]


@pytest.mark.slow
def test_plugin_is_imported_in_a_moment() -> None:
    """Once at least: a machine that has others to serve makes single tries slower, none faster."""
    times_us: list[int] = []
    while len(times_us) < TRIES and min(times_us, default=IMPORT_US_MAX + 1) > IMPORT_US_MAX:
        report = python("-X", "importtime", "-c", "import pytest, _odradek_pytest").stderr
        found = re.search(r"\| +(\d+) \| _odradek_pytest$", report, re.MULTILINE)
        assert found is not None
        times_us.append(int(found[1]))
    assert min(times_us) <= IMPORT_US_MAX


@pytest.mark.slow
def test_the_package_imports_nothing_either() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nimport odradek\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert python("-c", code).stdout.split() == ["odradek"]
