"""What all simulations need."""

from collections.abc import Iterator

import pytest

from .process import sim_sqlite


@pytest.fixture(autouse=True)
def _sqlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A simulated process that is killed loses its SQLite connection."""
    with sim_sqlite(monkeypatch):
        yield
