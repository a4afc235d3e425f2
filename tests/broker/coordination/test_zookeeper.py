"""The contract on a real ZooKeeper."""

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
from tests.kafka.zookeeper import ZooKeeper

pytestmark = pytest.mark.java


class TestZooKeeper(StoreContract):
    """Each test in a chroot of its own."""

    @pytest.fixture
    def stores(self, server: ZooKeeper) -> ZooKeeperStores:
        return ZooKeeperStores(server)


# A test that is broken off does not await all that it has begun.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
class Disturbed(
    NodeContract, SequentialContract, MultiContract, SessionContract, ConcurrencyContract
):
    """All but the watches, which fire without a change when the connection is lost."""

    # These watch, too.
    test_nothing_happens_if_one_fails = None  # type: ignore[assignment]
    test_expiry = None  # type: ignore[assignment]
    # Its sessions write the same data, so that one may take another's write for its own.
    test_counting_with_versions = None  # type: ignore[assignment]
    # Its reads are repeated when later writes have taken effect.
    test_operations_of_a_session_keep_their_order = None  # type: ignore[assignment]
    # It takes an error for somebody who has not won.
    test_one_wins = None  # type: ignore[assignment]
    # The end of a session may be cut off; then it expires later.
    test_close_deletes_only_its_own_ephemerals = None  # type: ignore[assignment]
    test_a_restart_leaves_no_ephemerals = None  # type: ignore[assignment]


class TestDisturbed(Disturbed):
    """While connections are cut and sessions end."""

    @pytest.fixture
    def stores(self, server: ZooKeeper) -> DisturbedStores:
        return DisturbedStores(server, Tally(), seed=1)


@pytest.mark.soak
class TestOftenDisturbed(Disturbed):
    """The same with 200 disconnects and 20 expiries at least."""

    tally = Tally()

    @pytest.fixture(params=range(10))
    def stores(self, server: ZooKeeper, request: pytest.FixtureRequest) -> DisturbedStores:
        return DisturbedStores(server, self.tally, seed=request.param)

    def test_that_there_were_disturbances(self) -> None:
        assert self.tally.cuts >= 200
        assert self.tally.expiries >= 20
