"""A whole run leaves out nothing unseen."""

import pytest

from tests import skips

NOT_WRITABLE = "tests/broker/test_server.py::test_a_directory_that_is_not_writable"


def skipped(nodeid: str, reason: str) -> pytest.TestReport:
    where = ("test_x.py", 1, f"Skipped: {reason}")
    return pytest.TestReport(nodeid, ("test_x.py", 1, "x"), {}, "skipped", where, "setup")


@pytest.mark.parametrize(
    ("nodeid", "reason", "may"),
    [
        ("tests/wire/test_small_disk.py::test_x", skips.NEEDS_ROOT, True),
        (NOT_WRITABLE, "root may write anywhere", True),
        (NOT_WRITABLE, "another reason", False),
        ("tests/broker/test_x.py::test_y", "root may write anywhere", False),
        ("tests/broker/test_x.py::test_y", "not today", False),
    ],
)
def test_what_may_be_skipped(nodeid: str, reason: str, may: bool) -> None:
    assert skips.may_be_skipped(nodeid, skips.reason_of(skipped(nodeid, reason))) is may


def test_an_ordinary_user_is_told_what_was_left_out() -> None:
    reports = [
        skipped("tests/lab/test_cuts.py::test_a", skips.NEEDS_ROOT),
        skipped("tests/wire/test_small_disk.py::test_b[ext4]", skips.NEEDS_ROOT),
        skipped("tests/wire/test_small_disk.py::test_b[tmpfs]", skips.NEEDS_ROOT),
        skipped(NOT_WRITABLE, "root may write anywhere"),
    ]
    total, *files = skips.summary_of(reports)
    assert total.startswith("3 tests that need root were left out")
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
