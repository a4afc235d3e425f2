"""Fixtures of the Spark tests: a broker of the chosen target, and one Spark session per release."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marks import mark_room
from tests.spark.environment import Spark
from tests.spark.session import SparkSession
from tests.wire import conftest as wire
from tests.wire.servers import Server, make_server

StartSpark = Callable[[], SparkSession]
NewTopicName = Callable[..., str]
TIMEOUT_S = 300
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_room(items, __file__, pytest.mark.spark, pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One broker for all Spark tests that do not end it: Odradek, or the one --target names."""
    target = request.config.getoption("--target")
    broker = make_server(target, tmp_path_factory.mktemp("server"), SETTINGS)
    try:
        broker.start()
        yield broker
        assert broker.alive, f"the broker ended during the tests\n{broker.output}"
    finally:
        broker.close()


@pytest.fixture
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A broker of that kind that a test may kill and start again; others' clients know another."""
    target = request.config.getoption("--target")
    broker = make_server(target, tmp_path / "own-server", SETTINGS)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture(scope="session")
def start_spark(release: Spark, tmp_path_factory: pytest.TempPathFactory) -> StartSpark:
    """A function that starts a Spark session of the release under test; the caller ends it."""
    return lambda: SparkSession(release, tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="session")
def spark(start_spark: StartSpark) -> Iterator[SparkSession]:
    """The Spark session that all tests of one release share."""
    with start_spark() as session:
        yield session


@pytest.fixture(scope="session")
def new_topic(server: Server) -> NewTopicName:
    """A function that creates a topic with a name of its own and returns the name."""
    numbers = itertools.count()

    def make(stem: str, *, partitions: int = 4) -> str:
        name = f"{stem}-{next(numbers)}"
        create_topic(server, name, partitions=partitions)
        return name

    return make


def create_topic(server: Server, name: str, *, partitions: int = 4) -> None:
    """With a client of its own: one that has seen its broker end may stand still for minutes."""
    # Some records are given old timestamps; retention is not to take them away.
    keep = {"retention.ms": "-1"}
    wire.create_topic(server.bootstrap_servers, name, partitions=partitions, config=keep)
