"""How it is said that Apache Kafka was asked what its recordings do not tell any more.

It stands apart from `wire/comparing.py`: the process that deals out the tests collects none.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

STALE: Final = "stale recording"
NAMED_MAX: Final = 5


def mark_stale(request: pytest.FixtureRequest) -> None:
    """Say so of the test that is running."""
    request.node.user_properties.append((STALE, request.node.nodeid))


def stale_recordings(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """For the end of a run: how many, and how they are recorded anew."""
    properties = [each for report in reports for each in report.user_properties]
    stale = sorted({str(value) for name, value in properties if name == STALE})
    if stale:
        files = sorted({name.partition("::")[0] for name in stale})
        which = " ".join(map(shlex.quote, stale if len(stale) <= NAMED_MAX else files))
        yield f"recordings of another source, so that Kafka was asked: {len(stale)}. Record anew:"
        yield f"    python -m pytest --record -m 'not soak' {which}"
