"""How tests are dealt to the processes of `pytest -n`: a file at a time, the long rooms first.

Tests of one file share fixtures, so one process runs them all.  Tests of several files that share
something dear (a running Spark) have the mark `xdist_group`, and run in one process, too.  What
waits longest starts first: a long file that is dealt last would keep one process busy alone.
"""

from collections.abc import Sequence
from typing import Final

import pytest
from xdist.scheduler import LoadGroupScheduling

LONG_FIRST: Final = (
    *("tests/spark/", "tests/pipeline/", "tests/lab/", "tests/wire/", "tests/cluster/"),
    *("tests/fuzz/", "tests/cli/test_secure_brokers.py", "tests/cli/test_serve_secure.py"),
    *("tests/testing/", "tests/docs/", "tests/mutants/", "tests/sim/brokers/"),
    "tests/protocol/test_messages.py",
)


class FileScheduling(LoadGroupScheduling):  # type: ignore[misc] # xdist has no types
    """Deals by group, and what has none by file.  Use it with --dist loadgroup."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope.partition("::")[0]


def long_first(items: list[pytest.Item], places: Sequence[str] = LONG_FIRST) -> None:
    """Bring the tests of these rooms and files to the front, in the order of `places`."""

    def rank(item: pytest.Item) -> int:
        ranks = (rank for rank, place in enumerate(places) if item.nodeid.startswith(place))
        return next(ranks, len(places))

    items.sort(key=rank)
