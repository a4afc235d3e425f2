"""Kafka's command-line tools, for all rooms (tests/conftest.py): a JVM for each version."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.kafka.jars import VERSIONS
from tests.kafka.java import ToolRunner


@pytest.fixture(scope="session")
def runners() -> Iterator[Mapping[str, ToolRunner]]:
    """For each version of Kafka a JVM that runs its tools; it starts when it is first asked to."""
    with ExitStack() as stack:
        yield {version: stack.enter_context(ToolRunner(version)) for version in VERSIONS}


@pytest.fixture(params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.soak)])
def tools(request: pytest.FixtureRequest, runners: Mapping[str, ToolRunner]) -> ToolRunner:
    """Kafka's tools of each version; in `make test` only the newer, which asks for more."""
    return runners[request.param]
