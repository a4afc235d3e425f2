"""A whole run leaves out nothing unseen."""

import os
import re
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
        ("tests/situations/test_situations.py::test_x[y]", "there is no go", True),
        ("tests/situations/test_situations.py::test_x[y]", "not today", False),
        ("tests/broker/test_x.py::test_y", "there is no go", False),
    ],
)
def test_what_may_be_skipped(
    nodeid: str, reason: str, may: bool, request: pytest.FixtureRequest
) -> None:
    item = request.node
    item._nodeid = nodeid
    assert skips.may_be_skipped(item, skips.reason_of(skipped(nodeid, reason))) is may


@pytest.mark.slow
@pytest.mark.parametrize("require", ["", "all"])
def test_a_skip_of_any_kind_fails_a_whole_run(require: str, tmp_path: Path) -> None:
    texts = (
        "import pytest; pytest.importorskip('not_there')",
        "import pytest; pytest.skip('not today', allow_module_level=True)",
        "import pytest\ndef test_a(): pytest.skip('needs root')",
        "import pytest\ndef test_a(): pytest.xfail('some day')",
    )
    (tmp_path / "tests").mkdir()
    files = [tmp_path / "tests" / f"test_{number}.py" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    ours = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", f"--rootdir={tmp_path}"]
    more = ["--continue-on-collection-errors", *map(str, files)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *ours, *more],
        cwd=ROOT,
        env={**os.environ, "ODRADEK_REQUIRE": require},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S*/tests/(\w+\.py)", done.stdout, re.MULTILINE)
    assert sorted(failed) == ([file.name for file in files] if require else []), done.stdout
    assert done.returncode == (ExitCode.TESTS_FAILED if require else ExitCode.OK)


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
