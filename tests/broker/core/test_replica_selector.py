"""Which replica a consumer is sent to, by its rack."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.broker.config import ConfigError, load_config
from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.partition import Partition
from odradek.broker.core.replica_selector import (
    SELECTORS,
    Racks,
    ReplicaView,
    preferred_replica,
    select_in_rack,
)
from odradek.broker.settings.replication import REPLICA_SELECTORS
from tests.broker.core.test_partition import append, partition_of

LEADER = ReplicaView(1, "a", 100, 0)
RACKS: Racks = {1: "a", 2: "b", 3: "c", 4: "b"}
NOW_MS = 1_000


def view(
    broker_id: int, rack: str | None, log_end_offset: int = 90, lag_ms: int = 5
) -> ReplicaView:
    return ReplicaView(broker_id, rack, log_end_offset, lag_ms)


@pytest.mark.parametrize(
    ("rack", "followers", "chosen"),
    [
        ("b", [view(2, "b"), view(3, "c")], 2),
        ("b", [view(3, "c")], 1),
        ("b", [], 1),
        ("", [view(2, "")], 1),
        ("b", [view(2, None), view(3, "B")], 1),
        ("a", [view(2, "a", 200)], 1),
        ("b", [view(2, "b", 90), view(4, "b", 91)], 4),
        ("b", [view(4, "b", 90), view(2, "b", 91)], 2),
        ("b", [view(2, "b", lag_ms=4), view(4, "b", lag_ms=5)], 2),
        ("b", [view(4, "b"), view(2, "b")], 4),
    ],
)
def test_the_most_caught_up_in_the_rack(
    rack: str, followers: Sequence[ReplicaView], chosen: int
) -> None:
    assert select_in_rack(rack, LEADER, followers).broker_id == chosen


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Broker 1 leads ten records; 2 has eight of them from offset 3 on, 3 is not in sync."""
    made = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2, 3))
    for _ in range(10):
        append(made, b"a")
    for replica, end in ((2, 8), (3, 10)):
        by = FetchingReplica(replica, is_alive=False, now_ms=0, lag_max_ms=10)
        made.follower_fetched(by, end, 3)
    return made


def preferred(
    partition: Partition, offset: int, *, rack: str = "b", racks: Racks = RACKS
) -> int | None:
    return preferred_replica(partition, offset, select_in_rack, rack, racks, now_ms=NOW_MS)


def test_only_who_holds_the_offset(partition: Partition) -> None:
    found = [offset for offset in range(12) if preferred(partition, offset) == 2]
    assert found == [3, 4, 5, 6, 7, 8]


def test_only_who_is_in_sync_and_reached(partition: Partition) -> None:
    assert preferred(partition, 5) == 2
    assert preferred(partition, 5, rack="c") is None, "3 is not in sync"
    assert preferred(partition, 5, rack="a") is None, "the leader is there"
    assert preferred(partition, 5, racks={1: "a"}) is None, "2 is dead, or has no such listener"
    assert preferred(partition, 5, racks={2: "b"}) == 2, "wherever the leader is"


def test_only_a_leader_sends_elsewhere(partition: Partition) -> None:
    partition.become(partition.state._replace(leader=2, leader_epoch=9), 0)
    assert preferred(partition, 5) is None


def test_a_follower_that_was_never_heard_of_is_left_out(tmp_path: Path) -> None:
    assert preferred(partition_of(tmp_path, isr=(1, 2), replicas=(1, 2)), 0) is None


def test_only_kafka_s_own_selector_is_taken() -> None:
    assert set(SELECTORS) == set(REPLICA_SELECTORS)
    (name,) = REPLICA_SELECTORS
    config = load_config(overrides={"replica.selector.class": name})
    assert config.replica_selector_class == name
    assert load_config().replica_selector_class is None
    for other in ("com.example.Mine", "org.apache.kafka.common.replica.LeaderSelector", ""):
        with pytest.raises(ConfigError, match=rf"replica.selector.class.*must be one of {name}"):
            load_config(overrides={"replica.selector.class": other})
