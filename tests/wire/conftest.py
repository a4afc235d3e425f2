"""Fixtures of the wire tests: the broker they share, topics on it, Kafka's side, and patience."""

import pytest
from confluent_kafka.admin import AdminClient

from tests.marks import mark_room
from tests.support.brokers import NewTopicName, SharedServer, UniqueName, topics_on
from tests.wire.clients import librdkafka
from tests.wire.comparing import SIDES, Kafka, mode_of
from tests.wire.servers import Server

# Many start clients in Java, kill brokers or wait several times, and bound each step by itself.
PATIENCE = pytest.mark.timeout(300)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_room(items, __file__, pytest.mark.wire)
    if config.getoption("timeout") is None:
        unbounded = [item for item in items if item.get_closest_marker("timeout") is None]
        mark_room(unbounded, __file__, PATIENCE)


@pytest.fixture
def odradek_only(target: str) -> None:
    """For tests of what only Odradek promises; nothing to show against Apache Kafka."""
    if target != "odradek":
        pytest.skip("says something about Odradek only")


@pytest.fixture(scope="session")
def server(shared_server: SharedServer) -> Server:
    """The defaults, but records of any age stay: some tests write old timestamps."""
    return shared_server({"log.retention.ms": "-1"})


@pytest.fixture(scope="session")
def admin(server: Server) -> AdminClient:
    return AdminClient(librdkafka(server.bootstrap_servers))


@pytest.fixture(scope="session")
def new_topic(server: Server, unique_name: UniqueName) -> NewTopicName:
    return topics_on(server, unique_name)


@pytest.fixture(params=SIDES)
def mode(request: pytest.FixtureRequest) -> Kafka:
    """How Kafka's answers are got, for tests that have no pair of brokers."""
    return mode_of(request)
