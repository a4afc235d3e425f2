"""What the broker tells of the cluster, as the controller described it."""

import asyncio

from odradek.broker.core.partition_state import LEADER_IS_DELETED, PartitionState
from odradek.broker.member.metadata import Address, BrokerInfo, MetadataCache
from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import ZERO_UUID
from tests.support.awaiting import turns

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


def state(
    partition: int, topic: str = "t", *, topic_id: bytes = ID, leader: int = 1
) -> PartitionState:
    return PartitionState(topic, topic_id, partition, leader, 0, (1,), (1,), 0, 1)


def test_partitions_come_change_and_go() -> None:
    cache = MetadataCache("cluster")
    cache.update_partitions([state(0), state(1), state(0, "u", topic_id=OTHER_ID)])
    assert [s.partition for s in cache.topics["t"].partitions] == [0, 1]
    assert (cache.topic_name(ID), cache.topic_name(OTHER_ID)) == ("t", "u")
    cache.update_partitions([state(2)])
    cache.update_partitions([state(1, leader=2)])
    assert [s.leader for s in cache.topics["t"].partitions] == [1, 2, 1]
    for partition in (-1, 3):
        assert cache.partition("t", partition) is None
    assert cache.partition("absent", 0) is None
    found = cache.partition("t", 1)
    assert found is not None
    assert found.leader == 2
    cache.forget_topic("t")
    cache.forget_topic("t")
    assert cache.topic_name(ID) is None
    assert set(cache.topics) == {"u"}


def numbers(cache: MetadataCache, topic: str = "t") -> list[int]:
    return [state.partition for state in cache.topics[topic].partitions]


def test_partitions_in_any_order_and_with_gaps() -> None:
    cache = MetadataCache("cluster")
    cache.update_partitions([state(7), state(2), state(5)])
    assert numbers(cache) == [2, 5, 7]
    cache.update_partitions([state(3), state(5, leader=9)])
    assert numbers(cache) == [2, 3, 5, 7]
    found = cache.partition("t", 5)
    assert found is not None
    assert found.leader == 9
    assert cache.partition("t", 4) is None


def test_partitions_that_are_deleted() -> None:
    cache = MetadataCache("cluster")
    cache.update_partitions([state(0), state(1), state(0, "u", topic_id=OTHER_ID)])
    assert cache.update_partitions([state(0, leader=LEADER_IS_DELETED)]) == []
    assert numbers(cache) == [1]
    gone = [state(1, leader=LEADER_IS_DELETED), state(0, "x", leader=LEADER_IS_DELETED)]
    assert cache.update_partitions(gone) == ["t"]
    assert set(cache.topics) == {"u"}
    assert (cache.topic_name(ID), cache.topic_name(OTHER_ID)) == (None, "u")


def test_a_topic_gets_its_id_later() -> None:
    cache = MetadataCache("cluster")
    cache.update_partitions([state(0, topic_id=ZERO_UUID), state(1, topic_id=ZERO_UUID)])
    assert cache.topic_name(ZERO_UUID) is None
    cache.update_partitions([state(1)])
    assert (numbers(cache), cache.topic_name(ID)) == ([0, 1], "t")
    cache.update_partitions([state(1, topic_id=ZERO_UUID)])
    assert (numbers(cache), cache.topic_name(ID)) == ([0, 1], None)


def test_which_leader_is_reached() -> None:
    cache = MetadataCache("cluster")
    inside = {"INSIDE": Address("host", 9)}
    assert cache.update_brokers(1, [BrokerInfo(1, None, inside)])
    assert not cache.update_brokers(1, [BrokerInfo(1, None, inside)])
    assert cache.update_brokers(1, [BrokerInfo(1, "rack", inside)])
    assert cache.leader_error(state(0), "INSIDE") == ErrorCode.NONE
    assert cache.leader_error(state(0), "OUTSIDE") == ErrorCode.LISTENER_NOT_FOUND
    assert cache.leader_error(state(0, leader=2), "INSIDE") == ErrorCode.LEADER_NOT_AVAILABLE
    cache.update_brokers(-7, [])
    assert cache.controller_id == -1


def test_a_topic_with_another_id_is_another_topic() -> None:
    cache = MetadataCache("cluster")
    cache.update_partitions([state(0), state(1)])
    cache.update_partitions([state(0, topic_id=OTHER_ID)])
    assert len(cache.topics["t"].partitions) == 1
    assert cache.topic_name(OTHER_ID) == "t"
    assert cache.topic_name(ID) is None, "nobody may be sent from the old topic to the new one"


def test_brokers() -> None:
    cache = MetadataCache("cluster")
    cache.update_brokers(1, [BrokerInfo(1, "rack", {"PLAINTEXT": Address("host", 9)})])
    assert (cache.controller_id, set(cache.brokers)) == (1, {1})
    cache.update_brokers(2, [])
    assert (cache.controller_id, cache.brokers) == (2, {})


def test_who_waits_looks_after_every_change() -> None:
    async def main() -> None:
        cache = MetadataCache("cluster")
        looks = []

        def is_there() -> bool:
            looks.append(len(cache.topics))
            return "u" in cache.topics

        waiting = [asyncio.ensure_future(cache.wait_until(is_there)) for _ in range(2)]
        await asyncio.sleep(0)
        cache.update_partitions([state(0)])
        await turns(3)
        assert not any(task.done() for task in waiting)
        cache.update_partitions([state(0, "u", topic_id=OTHER_ID)])
        await asyncio.gather(*waiting)
        assert looks == [0, 0, 1, 1, 2, 2]
        await cache.wait_until(is_there)

    asyncio.run(main())
