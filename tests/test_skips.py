"""A whole run leaves out nothing unseen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest import ExitCode

from tests import skips

ROOT = Path(__file__).resolve().parents[1]

NOT_WRITABLE = "tests/broker/test_server.py::test_a_directory_that_is_not_writable"


def skipped(nodeid: str, reason: str) -> pytest.TestReport:
    where = ("test_x.py", 1, f"Skipped: {reason}")
    return pytest.TestReport(nodeid, ("test_x.py", 1, "x"), {}, "skipped", where, "setup")


@pytest.mark.parametrize(
    ("nodeid", "reason", "may"),
    [
        ("tests/wire/test_small_disk.py::test_x", skips.NEEDS_ROOT, False),
        (NOT_WRITABLE, "root may write anywhere", True),
        (NOT_WRITABLE, "another reason", False),
        ("tests/broker/test_x.py::test_y", "root may write anywhere", False),
        ("tests/broker/test_x.py::test_y", "not today", False),
    ],
)
def test_what_may_be_skipped(
    nodeid: str, reason: str, may: bool, request: pytest.FixtureRequest
) -> None:
    item = request.node
    item._nodeid = nodeid
    assert skips.may_be_skipped(item, skips.reason_of(skipped(nodeid, reason))) is may


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "import pytest; pytest.importorskip('not_there')",
        "import pytest; pytest.skip('not today', allow_module_level=True)",
        "import pytest\ndef test_a(): pytest.skip('needs root')",
        "import pytest\ndef test_a(): pytest.xfail('some day')",
    ],
)
def test_a_skip_of_any_kind_fails_a_whole_run(text: str, tmp_path: Path) -> None:
    file = tmp_path / "tests" / "test_it.py"
    file.parent.mkdir()
    file.write_text(text)
    ours = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    words = [sys.executable, "-m", "pytest", "-q", *ours, f"--rootdir={tmp_path}", str(file)]
    passes = (ExitCode.OK, ExitCode.NO_TESTS_COLLECTED)
    fails = (ExitCode.TESTS_FAILED, ExitCode.INTERRUPTED)  # the latter of what is not collected
    for require, codes in (("", passes), ("all", fails)):
        environment = {**os.environ, "ODRADEK_REQUIRE": require}
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode in codes, done.stdout


def test_an_ordinary_user_is_told_what_was_left_out() -> None:
    reports = [
        skipped("tests/lab/test_cuts.py::test_a", skips.NEEDS_ROOT),
        skipped("tests/wire/test_small_disk.py::test_b[ext4]", skips.NEEDS_ROOT),
        skipped("tests/wire/test_small_disk.py::test_b[tmpfs]", skips.NEEDS_ROOT),
        skipped(NOT_WRITABLE, "root may write anywhere"),
    ]
    total, *files = skips.summary_of(reports)
    assert total.startswith("tests that need root") and total.endswith(": 3")
    assert files == ["    1  tests/lab/test_cuts.py", "    2  tests/wire/test_small_disk.py"]
    assert skips.summary_of(reports[3:]) == []


def test_only_root_runs_what_needs_root(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = request.node
    assert not skips.wants_root(item)
    item.add_marker("root")
    for user, left_out in ((0, False), (1000, True)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        assert skips.wants_root(item) is left_out
        assert skips.may_be_skipped(item, skips.NEEDS_ROOT) is left_out
