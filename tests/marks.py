"""Marks that all tests of a room have."""

from collections.abc import Iterable
from pathlib import Path

import pytest


def mark_room(items: Iterable[pytest.Item], conftest: str, *marks: pytest.MarkDecorator) -> None:
    """Mark the tests that lie beside or below a room's `conftest`, given as its `__file__`."""
    room = f"{Path(conftest).parent}/"
    for item in items:
        if str(item.path).startswith(room):  # a path's `parents` are slow to make for each test
            for mark in marks:
                item.add_marker(mark)
