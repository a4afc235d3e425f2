"""The contract on a real ZooKeeper."""

from collections.abc import Iterator

import pytest

from tests.broker.coordination.contract import (
    MultiContract,
    NodeContract,
    SequentialContract,
    SessionContract,
    StoreContract,
)
from tests.broker.coordination.contract_watches import ConcurrencyContract
from tests.broker.coordination.zookeepers import DisturbedStores, Tally, ZooKeeperStores
from tests.kafka.zookeeper import ZooKeeper, zookeeper
from tests.seeds import seeds

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


TALLY = Tally()


class TestDisturbed(
    NodeContract, SequentialContract, MultiContract, SessionContract, ConcurrencyContract
):
    """All but the watches, which fire without a change when the connection is lost."""

    test_nothing_happens_if_one_fails = None
    test_expiry = None

    @pytest.fixture(params=seeds(1, 2))
    def stores(self, server: ZooKeeper, request: pytest.FixtureRequest) -> DisturbedStores:
        return DisturbedStores(server, TALLY, seed=request.param)


def test_there_were_disturbances() -> None:
    print(TALLY)
