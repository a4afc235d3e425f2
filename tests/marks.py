"""Marks that all tests of a room have, and what is passed over in some."""

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

FORGOTTEN_BY_KAFKA_PYTHON: Final = pytest.mark.filterwarnings(
    r"ignore:unclosed <(socket\.socket|ssl\.SSLSocket):ResourceWarning"
)
"""A socket that connects while its client is being closed.  Whose test it was the collector can't
tell: it is for rooms where all sockets of this process are clients', with `collect_in_room`."""


def mark_room(items: Iterable[pytest.Item], conftest: str, *marks: pytest.MarkDecorator) -> None:
    """Mark the tests that lie beside or below a room's `conftest`, given as its `__file__`."""
    room = f"{Path(conftest).parent}/"
    for item in items:
        if str(item.path).startswith(room):  # a path's `parents` are slow to make for each test
            for mark in marks:
                item.add_marker(mark)


def collect_in_room(conftest: str, nextitem: pytest.Item | None) -> None:
    """Collect what tests of a room forgot before those of another: call it at the end of each."""
    if nextitem is None or Path(conftest).parent not in nextitem.path.parents:
        gc.collect()
