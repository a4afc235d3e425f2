"""The contract on a real ZooKeeper."""

from collections.abc import Iterator

import pytest

from tests.broker.coordination.contract import StoreContract
from tests.broker.coordination.zookeepers import ZooKeeperStores
from tests.kafka.zookeeper import ZooKeeper, zookeeper

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with zookeeper() as running:
        yield running


class TestZooKeeper(StoreContract):
    """Each test in a chroot of its own."""

    @pytest.fixture
    def stores(self, server: ZooKeeper) -> ZooKeeperStores:
        return ZooKeeperStores(server)
