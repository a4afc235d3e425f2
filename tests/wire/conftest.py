"""Fixtures of the wire tests: brokers of the chosen target, and topics with names of their own."""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.marks import FORGOTTEN_BY_KAFKA_PYTHON, collect_in_room, mark_room
from tests.wire.clients import librdkafka
from tests.wire.servers import Server, make_server

StartServer = Callable[..., Server]
NewTopicName = Callable[..., str]
# Many start clients in Java, kill brokers or wait several times, and bound each step by itself.
PATIENCE = pytest.mark.timeout(300)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_room(items, __file__, pytest.mark.wire, FORGOTTEN_BY_KAFKA_PYTHON)
    if config.getoption("timeout") is None:
        unbounded = [item for item in items if item.get_closest_marker("timeout") is None]
        mark_room(unbounded, __file__, PATIENCE)


@pytest.hookimpl(trylast=True)  # behind the ends of fixtures
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    collect_in_room(__file__, nextitem)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """The kind of broker: odradek, kafka-3.9 or kafka-4.3."""
    chosen: str = request.config.getoption("--target")
    return chosen


@pytest.fixture
def odradek_only(target: str) -> None:
    """For tests of what only Odradek promises; nothing to show against Apache Kafka."""
    if target != "odradek":
        pytest.skip("says something about Odradek only")


@pytest.fixture(scope="session")
def server(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One broker for all tests that only need unique topics.

    Its settings are the defaults, but records of any age stay: some tests write old timestamps.
    """
    broker = make_server(target, tmp_path_factory.mktemp("server"), {"log.retention.ms": "-1"})
    try:
        broker.start()
        yield broker
        assert broker.alive, f"the broker ended during the tests\n{broker.output}"
    finally:
        broker.close()


@pytest.fixture
def start_server(target: str, tmp_path: Path) -> Iterator[StartServer]:
    """A function that starts a broker of its own with the given settings."""
    started: list[Server] = []

    def start(settings: Mapping[str, str] | None = None) -> Server:
        broker = make_server(target, tmp_path / f"server-{len(started)}", settings)
        started.append(broker)
        broker.start()
        return broker

    try:
        yield start
    finally:
        for broker in started:
            broker.close()


@pytest.fixture(scope="session")
def admin(server: Server) -> AdminClient:
    return AdminClient(librdkafka(server.bootstrap_servers))


def create_topic(
    bootstrap_servers: str,
    name: str,
    *,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    admin: AdminClient | None = None,
) -> None:
    """Create a topic and return when the broker says that it is there."""
    client = admin or AdminClient(librdkafka(bootstrap_servers))
    topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    client.create_topics([topic])[name].result(timeout=30)


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """A function that makes names no other test uses."""
    numbers = itertools.count()
    return lambda stem: f"{stem}-{os.getpid()}-{next(numbers)}"


@pytest.fixture
def new_topic(
    server: Server, admin: AdminClient, unique_name: Callable[[str], str]
) -> NewTopicName:
    """A function that creates a topic on the shared broker and returns its name."""

    def make(
        stem: str = "t", *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        name = unique_name(stem)
        create_topic(
            server.bootstrap_servers, name, partitions=partitions, config=config, admin=admin
        )
        return name

    return make
