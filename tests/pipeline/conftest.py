"""Fixtures of the pipeline's tests: a real broker, commands of each Spark, one warm Spark each.

A test that takes `commands` or `warm_spark` runs with every release, in `make test` with an older
one only if it is marked `every_release` (tests/conftest.py); one that takes `warm_spark_4_0`, as
those of segment files do, with Spark 4.0 only.  `@pytest.mark.spark` is theirs to set.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient

from tests.marks import FORGOTTEN_BY_KAFKA_PYTHON, collect_in_room, mark_room
from tests.pipeline.harness import Commands, WarmSpark
from tests.spark.environment import Spark
from tests.spark.releases import present
from tests.wire.servers import Server, make_server

NewTopicName = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_room(items, __file__, FORGOTTEN_BY_KAFKA_PYTHON)


@pytest.hookimpl(trylast=True)  # behind the ends of fixtures
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    collect_in_room(__file__, nextitem)


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One broker for all tests that do not end it: Odradek, or the one that --target names."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
    target = request.config.getoption("--target")
    broker = make_server(target, tmp_path_factory.mktemp("server"), settings)
    try:
        broker.start()
        yield broker
        assert broker.alive, f"the broker ended during the tests\n{broker.output}"
    finally:
        broker.close()


@pytest.fixture
def own_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A broker of that kind that a test may stop, kill and start again; not started."""
    target = request.config.getoption("--target")
    broker = make_server(target, tmp_path_factory.mktemp("own-server"))
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture(scope="session")
def new_topic(server: Server) -> NewTopicName:
    """A function that creates a topic with a name of its own and returns the name."""
    numbers = itertools.count()

    def make(stem: str, *, partitions: int = 3, **config: str) -> str:
        name = f"{stem}-{next(numbers)}"
        # Some records are given old timestamps; retention is not to take them away.
        settings = {"retention.ms": "-1", **{key.replace("_", "."): config[key] for key in config}}
        admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
        try:
            topics = {name: {"num_partitions": partitions, "configs": settings}}
            admin.create_topics(topics, wait_for_metadata=True)
        finally:
            admin.close()
        return name

    return make


@pytest.fixture(scope="session")
def commands(release: Spark) -> Commands:
    """`odradek pipeline …` in a process."""
    return Commands(release)


@pytest.fixture(scope="session")
def warm_sparks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Spark], WarmSpark]]:
    """A function that returns the one running Spark of a release, starting it first if need be."""
    running: dict[str, WarmSpark] = {}

    def of(spark: Spark) -> WarmSpark:
        if spark.name not in running:
            running[spark.name] = WarmSpark(spark, tmp_path_factory.mktemp("spark"))
        return running[spark.name]

    try:
        yield of
    finally:
        for spark in running.values():
            spark.close()


@pytest.fixture(scope="session")
def warm_spark(release: Spark, warm_sparks: Callable[[Spark], WarmSpark]) -> WarmSpark:
    """The Spark that the tests of one release share."""
    return warm_sparks(release)


@pytest.fixture(scope="session")
def warm_spark_4_0(warm_sparks: Callable[[Spark], WarmSpark]) -> WarmSpark:
    """The shared Spark 4.0, for what no older one has."""
    return warm_sparks(present("4.0"))
