"""Which tests go to one process together, and which are dealt first."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import FileScheduling, long_first


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


def test_long_rooms_come_first_and_nothing_else_changes_its_place() -> None:
    names = ("tests/broker/b.py", "tests/test_z.py", "tests/wire/a.py", "tests/broker/a.py")
    items: list[Any] = [SimpleNamespace(nodeid=f"{name}::test") for name in names]
    long_first(items, ("spark", "wire"))
    assert [item.nodeid.partition("::")[0] for item in items] == [
        "tests/wire/a.py",
        "tests/broker/b.py",
        "tests/test_z.py",
        "tests/broker/a.py",
    ]
