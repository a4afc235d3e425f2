"""Which releases of Spark a test runs with, and that those of one release run in one process."""

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
    a batch that is written and read, a stream that goes on from its checkpoint, and the jobs
    archive, compact, replay and audit in a row.  `make soak PART=archive` runs the rest.
    """
    _, *older = RELEASES
    for item in items:
        if release_of(item) in older and item.get_closest_marker("every_release") is None:
            item.add_marker(pytest.mark.soak)


def keep_together(items: list[pytest.Item]) -> None:
    """Have one process of `pytest -n` run all tests of a release's warm Spark: it starts once."""
    newest, *_ = RELEASES
    for item in items:
        if "warm_sparks" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(f"spark-{release_of(item) or newest}"))


def release_of(item: pytest.Item) -> str | None:
    """The value of the parameter `release`."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("release") if callspec else None
