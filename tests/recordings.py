"""How it is said that recordings do not tell any more what Apache Kafka answers.

It stands apart from `wire/comparing.py`: the process that deals out the tests collects none.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.skips import require_all

STALE: Final = "stale recording"
NAMED_MAX: Final = 5


def mark_stale(request: pytest.FixtureRequest) -> None:
    """Say so of the test that is running; in a whole run it fails, since nothing pins our side."""
    name: str = request.node.nodeid
    request.node.user_properties.append((STALE, name))
    if require_all():
        pytest.fail(
            f"the recording is of another source; record anew:\n    {_command([name])}",
            pytrace=False,
        )


def stale_recordings(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """For the end of a run: how many, and how they are recorded anew."""
    properties = [each for report in reports for each in report.user_properties]
    stale = sorted({str(value) for name, value in properties if name == STALE})
    if stale:
        files = sorted({name.partition("::")[0] for name in stale})
        yield f"recordings of another source: {len(stale)}. Record anew:"
        yield f"    {_command(stale if len(stale) <= NAMED_MAX else files)}"


def _command(names: Iterable[str]) -> str:
    return f"python -m pytest --record -m 'not soak' {' '.join(map(shlex.quote, names))}"
