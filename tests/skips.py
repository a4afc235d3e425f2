"""Which tests may be left out of a run that must be whole (ODRADEK_REQUIRE=all): none but these.

A test marked `root` or `network` needs root.  For an ordinary user it is left out, and the run
says how many there were and of which files.  Any other skip is a failure there, so that a test
which loses what it needs is noticed.
"""

import os
from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest

ROOT_MARKERS: Final = ("root", "network")
NEEDS_ROOT: Final = "needs root"
ALLOWED: Final = {
    "tests/broker/test_server.py::test_a_directory_that_is_not_writable": "root may write anywhere",
    **dict.fromkeys(
        (
            "tests/testing/test_ports.py::test_the_system_gives_it_to_nobody[connect]",
            "tests/testing/test_ports.py::test_the_system_gives_it_to_nobody[bind_any]",
        ),
        "Linux before 6.3 can't choose a port for a connection out of one",
    ),
    **{
        f"tests/testing/test_languages.py::test_{name}": f"there is no {name}"
        for name in ("curl", "go", "node")
    },
}
"""Tests that a whole run may skip, and the reason that the skip must give."""
ALLOWED_IN_FILES: Final = {
    "tests/situations/test_situations.py": (
        "there is no go",
        "there is no node",
        "there is no npm",
        "KafkaJS cannot be fetched",
        "franz-go cannot be fetched",
    ),
}
"""The same for all tests of a file."""

Report = pytest.TestReport | pytest.CollectReport


def require_all() -> bool:
    """Whether a skip is a failure."""
    return os.environ.get("ODRADEK_REQUIRE") == "all"


def wants_root(item: pytest.Item) -> bool:
    """Whether the test can't run, since it needs root and this is an ordinary user."""
    return os.geteuid() != 0 and any(item.get_closest_marker(name) for name in ROOT_MARKERS)


def may_be_skipped(item: pytest.Item, reason: str) -> bool:
    """Whether a whole run may leave this test out for this reason."""
    if reason == NEEDS_ROOT:
        return wants_root(item)
    file = item.nodeid.partition("::")[0]
    return ALLOWED.get(item.nodeid) == reason or reason in ALLOWED_IN_FILES.get(file, ())


def fail_instead(report: Report) -> None:
    """Make a failure of a skip, and of an expected failure."""
    reason = reason_of(report)
    vars(report).pop("wasxfail", None)  # else the run counts no failure
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid}: skipped with ODRADEK_REQUIRE=all: {reason}"


def reason_of(report: Report) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def summary_of(skipped: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each file whose tests were left out for want of root, and one for all."""
    files = Counter(
        report.nodeid.partition("::")[0] for report in skipped if reason_of(report) == NEEDS_ROOT
    )
    if not files:
        return []
    total = f"tests that need root and were left out (run as root for them): {files.total()}"
    return [total, *(f"{count:5d}  {file}" for file, count in sorted(files.items()))]
