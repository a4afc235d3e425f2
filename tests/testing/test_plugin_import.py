"""The pytest plugin is imported in every run of every user: it must cost nothing."""

import re
import subprocess
import sys

import pytest

IMPORT_US_MAX = 5000
TRIES = 20
MODULES_MAX = 400
"""Of Odradek before the first test: four of them take a millisecond."""
FEW_NEED = {
    "odradek.broker.admin_api.faults",
    "odradek.broker.admin_api.openapi",
    "odradek.broker.admin_api.waits",
    "odradek.broker.faults.carrying",
    "odradek.broker.faults.rule",
    "odradek.broker.local_cluster",
    "odradek.testing.clock",
    "odradek.testing.groups",
    "odradek.testing.isr",
}


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


@pytest.mark.slow
def test_a_broker_in_process_starts_without_what_few_tests_need() -> None:
    """Start, snapshot and restore are what comes before the first test."""
    code = (
        "import sys\nfrom odradek.testing import Broker\n"
        "with Broker(in_process=True) as broker:\n"
        "    broker.restore(broker.snapshot())\n"
        "    print(*sys.modules)"
    )
    loaded = {name for name in python("-c", code).stdout.split() if name.startswith("odradek.")}
    assert not loaded & FEW_NEED
    assert len(loaded) <= MODULES_MAX
