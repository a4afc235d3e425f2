"""Fixtures of the Spark tests: a broker of the chosen target."""

from typing import Final

import pytest

from tests.marks import mark_room
from tests.support.brokers import NewTopicName, SharedServer, UniqueName, topics_on
from tests.wire.servers import Server

TIMEOUT_S = 300
# The broker of these tests and of the pipeline's.
FOR_SPARK: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
# Some records are given old timestamps; retention is not to take them away.
OLD_RECORDS_STAY: Final = {"retention.ms": "-1"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_room(items, __file__, pytest.mark.spark, pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def server(shared_server: SharedServer) -> Server:
    return shared_server(FOR_SPARK)


@pytest.fixture(scope="session")
def new_topic(server: Server, unique_name: UniqueName) -> NewTopicName:
    return topics_on(server, unique_name, partitions=4, config=OLD_RECORDS_STAY)
