"""Which releases of Spark a test runs with: each of them, or the newest one only."""

import pytest

from tests.spark.environment import RELEASES, Spark


def present(name: str) -> Spark:
    """A release, or a skip where it is not installed."""
    if reason := RELEASES[name].missing():
        pytest.skip(reason)
    return RELEASES[name]


def leave_repeats_to_soak(items: list[pytest.Item]) -> None:
    """Mark `soak` what older releases of Spark would only repeat.

    A test that takes the fixture `release`, itself or through another one, is there for each of
    them.  `make test` runs it with the newest, and with older ones if it is marked `every_release`:
    each job once, and what may differ from release to release (plans, parsers, Kafka's client,
    what Spark says when it fails).  `make soak PART=archive` runs the rest.
    """
    _, *older = RELEASES
    for item in items:
        callspec = getattr(item, "callspec", None)
        name = callspec.params.get("release") if callspec else None
        if name in older and item.get_closest_marker("every_release") is None:
            item.add_marker(pytest.mark.soak)
