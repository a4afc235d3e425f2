"""Throttled replication: what is slowed, and what is not.

One batch of a throttled partition is as much as may be copied in ten seconds; samples are forgotten
after eleven, so that each leap of the clock lets one more through.
"""

import pytest

from odradek.broker.core.partition_state import TopicPartition
from tests.support.awaiting import until
from tests.support.messages import batch_of

from .cluster import KEY, TOPIC, Cluster, Replicating, on_cluster, state_of

OTHER = TOPIC, 1
VALUE = b"v" * 1000
BATCH_BYTES = len(batch_of(VALUE))
RATE = "100"
LEAP_MS = 12_000
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
OUT_OF_SYNC = (
    state_of(1, 0, [1], [1, 2], is_new=True),
    state_of(1, 0, [1], [1, 2], is_new=True, partition=1),
)


def limit(broker: Replicating, name: str, rate: str | None) -> None:
    """As DynamicConfigs does it."""
    broker.config.change(own={} if rate is None else {name: rate})
    broker.replicas.reconfigure()
    broker.replicator.settings_changed()


def throttle(cluster: Cluster, name: str, replicas: str) -> None:
    """The same for the topic."""
    for broker in cluster.brokers.values():
        broker.overrides = {**broker.overrides, name: replicas}
        broker.replicas.set_overrides(TOPIC, broker.overrides)
        broker.replicator.throttles_changed()


def batches(cluster: Cluster, key: TopicPartition = KEY) -> int:
    return cluster[2].partition(key).log.log_end_offset


async def until_there_are(cluster: Cluster, count: int, key: TopicPartition = KEY) -> None:
    await until(lambda: batches(cluster, key) >= count)
    assert batches(cluster, key) == count


async def fill(cluster: Cluster, count: int) -> None:
    """The leader has records of both partitions that the follower does not have."""
    await cluster[1].take(*OUT_OF_SYNC)
    client = await cluster[1].client()
    for topic, index in (KEY, OTHER):
        for _ in range(count):
            await client.append(topic, batch_of(VALUE), partition=index)


async def while_fetched(cluster: Cluster, key: TopicPartition = OTHER) -> None:
    """Return when the follower has asked several times."""
    client = await cluster[1].client()
    for _ in range(4):
        await client.append(key[0], batch_of(b"w"), partition=key[1])
        await until_there_are(cluster, cluster[1].partition(key).log.log_end_offset, key)


@pytest.mark.slow
@on_cluster(replica_fetch_max_bytes=str(BATCH_BYTES))
async def test_a_leader_holds_back_what_is_not_in_sync(cluster: Cluster) -> None:
    throttle(cluster, LEADERS, "0:1")
    limit(cluster[1], LEADER_RATE, RATE)
    await fill(cluster, 5)
    await cluster[2].take(*OUT_OF_SYNC)
    for count in (1, 2, 3):
        await until_there_are(cluster, count)
        await while_fetched(cluster)
        assert batches(cluster) == count
        cluster[1].clock.moved_ms += LEAP_MS
    await until_there_are(cluster, 4)
    throttle(cluster, LEADERS, "0:2,1:1")
    await until_there_are(cluster, 5)
    await cluster.until_equal()


@pytest.mark.slow
@on_cluster(replica_fetch_max_bytes=str(BATCH_BYTES))
async def test_a_follower_leaves_out_what_is_not_in_sync(cluster: Cluster) -> None:
    throttle(cluster, FOLLOWERS, "0:2")
    limit(cluster[2], FOLLOWER_RATE, RATE)
    await fill(cluster, 5)
    await cluster[2].take(*OUT_OF_SYNC)
    for count in (1, 2, 3):
        await until_there_are(cluster, count)
        await while_fetched(cluster)
        assert batches(cluster) == count
        cluster[2].clock.moved_ms += LEAP_MS
    await until_there_are(cluster, 4)
    limit(cluster[2], FOLLOWER_RATE, None)
    await until_there_are(cluster, 5)
    await cluster.until_equal()


@on_cluster(replica_fetch_max_bytes=str(BATCH_BYTES), replica_fetch_backoff_ms="1000000")
async def test_a_follower_with_nothing_else_goes_on_at_once(cluster: Cluster) -> None:
    """All that it follows is left out: it asks nothing, until the throttle is gone."""
    throttle(cluster, FOLLOWERS, "*")
    limit(cluster[2], FOLLOWER_RATE, "0")
    await fill(cluster, 3)
    await cluster[2].take(OUT_OF_SYNC[0])
    await until_there_are(cluster, 1)  # the first is never held back
    (fetcher, _), *_ = cluster[2].replicator._fetchers.values()
    following = fetcher.followed[KEY]
    await until(lambda: following.lag == 2)
    throttle(cluster, FOLLOWERS, "")
    await until_there_are(cluster, 3)


@on_cluster()
async def test_who_is_in_sync_is_not_slowed(cluster: Cluster) -> None:
    for name, broker, rate in ((LEADERS, 1, LEADER_RATE), (FOLLOWERS, 2, FOLLOWER_RATE)):
        throttle(cluster, name, "*")
        limit(cluster[broker], rate, "0")
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    client = await cluster[1].client()
    for _ in range(5):
        await client.append(TOPIC, batch_of(VALUE), acks=-1)
    await cluster.until_equal()
    for copier, quota in ((1, "_leader"), (2, "_follower")):  # what they copy counts all the same
        node = cluster[copier].node
        assert getattr(node.throttles, quota).is_exceeded(node.clock.now_ms())
