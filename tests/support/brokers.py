"""The brokers that tests speak to, and topics on them: fixtures of all rooms (tests/conftest.py).

`--target` says of which kind they are. A room whose tests share a broker has a fixture `server`
that is `shared_server` with its settings; rooms with the same settings share the same broker.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.wire.clients import librdkafka
from tests.wire.servers import Server, make_server

Settings = Mapping[str, str]
StartServer = Callable[..., Server]
SharedServer = Callable[[Settings], Server]
UniqueName = Callable[[str], str]
NewTopicName = Callable[..., str]


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """The kind of broker: odradek, kafka-3.9 or kafka-4.3."""
    chosen: str = request.config.getoption("--target")
    return chosen


@pytest.fixture(scope="session")
def shared_server(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    """A function that gives the one broker with these settings, for tests that do not end it."""
    running: dict[frozenset[tuple[str, str]], Server] = {}
    with ExitStack() as stack:

        def shared(settings: Settings) -> Server:
            key = frozenset(settings.items())
            if key not in running:
                broker = make_server(target, tmp_path_factory.mktemp("server"), settings)
                stack.callback(broker.close)
                broker.start()
                running[key] = broker
            return running[key]

        yield shared
        for broker in running.values():
            assert broker.alive, f"the broker ended during the tests\n{broker.output}"


@pytest.fixture
def start_server(target: str, tmp_path: Path) -> Iterator[StartServer]:
    """A function that starts a broker with the given settings, which its test may end."""
    with ExitStack() as stack:
        numbers = itertools.count()

        def start(settings: Settings | None = None) -> Server:
            broker = make_server(target, tmp_path / f"server-{next(numbers)}", settings)
            stack.callback(broker.close)
            broker.start()
            return broker

        yield start


@pytest.fixture(scope="session")
def unique_name() -> UniqueName:
    """A function that makes names no other test uses."""
    numbers = itertools.count()
    return lambda stem: f"{stem}-{os.getpid()}-{next(numbers)}"


def topics_on(
    server: Server, unique_name: UniqueName, *, partitions: int = 1, config: Settings | None = None
) -> NewTopicName:
    """A function that creates a topic on a shared broker and returns its name.

    The room's number of partitions and configs are for those who do not say otherwise.
    """
    admin = AdminClient(librdkafka(server.bootstrap_servers))
    usual_partitions, usual = partitions, config or {}

    def make(
        stem: str = "t", *, partitions: int = usual_partitions, config: Settings | None = None
    ) -> str:
        name = unique_name(stem)
        more = {**usual, **(config or {})}
        create_topic(
            server.bootstrap_servers, name, partitions=partitions, config=more, admin=admin
        )
        return name

    return make


def create_topic(
    bootstrap_servers: str,
    name: str,
    *,
    partitions: int = 1,
    config: Settings | None = None,
    admin: AdminClient | None = None,
) -> None:
    """Create a topic and return when the broker says that it is there."""
    client = admin or AdminClient(librdkafka(bootstrap_servers))
    topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    client.create_topics([topic])[name].result(timeout=30)
