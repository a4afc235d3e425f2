"""Which tests go to one process together, and which are dealt first."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import FileScheduling, long_first

GROUPED = """
import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(4))
def test(number):
    pass
"""


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/a/test_x.py::test_1", "tests/a/test_x.py"),
        ("tests/a/test_x.py::test_1[a::b@c]", "tests/a/test_x.py"),
        ("tests/a/test_x.py::test_1@spark", "spark"),
        ("tests/b/test_y.py::test_2[3]@spark", "spark"),
    ],
)
def test_a_file_stays_together_unless_it_is_in_a_group(nodeid: str, scope: str) -> None:
    scheduling = FileScheduling.__new__(FileScheduling)  # it would ask pytest for its workers
    assert scheduling._split_scope(nodeid) == scope


def test_long_rooms_and_files_come_first_and_nothing_else_changes_its_place() -> None:
    names = ("tests/broker/b.py", "tests/test_z.py", "tests/wire/a.py", "tests/broker/a.py")
    items: list[Any] = [SimpleNamespace(nodeid=f"{name}::test") for name in names]
    long_first(items, ("tests/spark/", "tests/wire/", "tests/test_z.py"))
    assert [item.nodeid.partition("::")[0] for item in items] == [
        "tests/wire/a.py",
        "tests/test_z.py",
        "tests/broker/b.py",
        "tests/broker/a.py",
    ]


@pytest.mark.slow
def test_pytest_lets_xdist_form_groups(tmp_path: Path) -> None:
    """It does so by changing a test's id, which is not pytest's to promise."""
    for name in ("one", "other"):
        (tmp_path / f"test_{name}.py").write_text(GROUPED)
    line = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup"]
    # In a place of its own it does not remove what earlier runs have left.
    line += ["-c", "/dev/null", "--basetemp", str(tmp_path / "inner")]
    done = subprocess.run([*line, str(tmp_path)], capture_output=True, text=True)
    workers = re.findall(r"\[(gw\d)\].* PASSED .*@together", done.stdout)
    assert (len(workers), len(set(workers))) == (8, 1), done.stdout + done.stderr
