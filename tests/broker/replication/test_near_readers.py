"""Consumers that read from followers: what they see, and how soon."""

import asyncio
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.records import MarkerType
from tests.storage.log.test_txn_index import Producers
from tests.support.awaiting import turns, until
from tests.support.messages import batch_of

from .cluster import TOPIC, Cluster, on_cluster, produce, state_of

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LONG_MS = 10_000
FIRST = state_of(1, 0, isr=[1, 2, 3], replicas=[1, 2, 3])


async def fetch(
    cluster: Cluster,
    broker: int,
    offset: int,
    *,
    version: int = 11,
    wait_ms: int = LONG_MS,
    rack: str = "",
    **more: Any,
) -> PartitionData:
    """One partition, over a connection of its own."""
    asked = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=more.pop("epoch", -1),
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
        rack_id=rack,
        **more,
    )
    client = await cluster[broker].client()
    return (await client.ask(request, version)).responses[0].partitions[0]  # type: ignore[no-any-return]


def bytes_of(found: PartitionData) -> bytes:
    """The records."""
    records = found.records
    assert isinstance(records, bytes | memoryview)
    return bytes(records)


async def are_parked(cluster: Cluster, *followers: int) -> None:
    """These know all that is committed, and wait at the leader for more."""
    leader = cluster[1].partition()
    await until(lambda: leader.log.high_watermark == leader.log.log_end_offset)
    for follower in followers:
        await until(
            lambda: cluster[follower].partition().log.high_watermark == leader.log.high_watermark  # noqa: B023
        )
    await until(lambda: len(leader.end_waiters) >= len(followers))


async def seconds_until_read(cluster: Cluster) -> float:
    """How long after it was written a record is read at a follower."""
    await cluster.take(FIRST)
    await produce(cluster, 1, b"a")
    await are_parked(cluster, 2, 3)
    waiting = asyncio.create_task(fetch(cluster, 2, 1))
    await until(lambda: bool(cluster[2].partition().waiters))
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    await produce(cluster, 1, b"b", acks=-1)
    found = await waiting
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 2)
    assert found.records
    return loop.time() - begin_s


@on_cluster(3, replica_selector_class=SELECTOR, replica_fetch_wait_max_ms="20000")
async def test_a_reader_that_waits_at_a_follower_hears_at_once(cluster: Cluster) -> None:
    assert await seconds_until_read(cluster) < 10


@on_cluster(3, replica_selector_class=SELECTOR, replica_fetch_wait_max_ms="10000")
async def test_followers_that_have_nothing_new_to_hear_wait(cluster: Cluster) -> None:
    await seconds_until_read(cluster)
    await are_parked(cluster, 2, 3)
    parked = list(cluster[1].partition().end_waiters)
    await turns(50)
    assert list(cluster[1].partition().end_waiters) == parked


@pytest.mark.slow
@on_cluster(3, replica_fetch_wait_max_ms="300")
async def test_without_a_selector_followers_are_not_hurried(cluster: Cluster) -> None:
    assert await seconds_until_read(cluster) > 0.1


@pytest.mark.slow
@on_cluster(3)
async def test_a_follower_shows_no_more_than_it_knows_to_be_committed(cluster: Cluster) -> None:
    await cluster.take(FIRST)
    await produce(cluster, 1, b"a", acks=-1)
    await are_parked(cluster, 2, 3)
    cluster[3].replicator.stopped([(TOPIC, 0)])
    await produce(cluster, 1, b"b", b"c")
    follower = cluster[2].partition().log
    await until(lambda: follower.log_end_offset == 3)
    assert follower.high_watermark == 1
    for offset, size_bytes in ((0, len(batch_of(b"a"))), (1, 0), (2, 0), (3, 0)):
        found = await fetch(cluster, 2, offset, wait_ms=0)
        assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 1)
        assert len(bytes_of(found)) == size_bytes
    assert (await fetch(cluster, 2, 4, wait_ms=0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@on_cluster(3)
async def test_only_committed_transactions_are_shown_by_a_follower(cluster: Cluster) -> None:
    await cluster.take(FIRST)
    leader = cluster[1].partition()
    producers = Producers(leader.log)
    producers.write(1, b"a")
    producers.write(2, b"b")
    producers.end(1, MarkerType.ABORT)
    producers.end(2, MarkerType.COMMIT)
    producers.write(3, b"c")
    await produce(cluster, 1, b"d")
    await are_parked(cluster, 2, 3)
    committed = await fetch(cluster, 2, 0, isolation_level=1)
    assert (committed.high_watermark, committed.last_stable_offset) == (6, 4)
    assert [(a.producer_id, a.first_offset) for a in committed.aborted_transactions or []] == [
        (1, 0)
    ]
    everything = await fetch(cluster, 2, 0)
    assert everything.aborted_transactions is None
    shown, all_shown = bytes_of(committed), bytes_of(everything)
    assert len(shown) < len(all_shown)
    assert all_shown.startswith(shown)
    assert not (await fetch(cluster, 2, 4, isolation_level=1, wait_ms=0)).records


@on_cluster(3)
async def test_who_waits_at_a_follower_hears_of_a_new_leader(cluster: Cluster) -> None:
    await cluster.take(FIRST)
    await produce(cluster, 1, b"a")
    await are_parked(cluster, 2, 3)
    fenced = asyncio.create_task(fetch(cluster, 2, 1, epoch=0))
    anyhow = asyncio.create_task(fetch(cluster, 2, 1))
    await until(lambda: len(cluster[2].partition().waiters) == 2)
    await cluster.take(state_of(2, 1, isr=[1, 2, 3], replicas=[1, 2, 3]))
    assert (await fenced).error_code == ErrorCode.FENCED_LEADER_EPOCH
    await produce(cluster, 2, b"b", acks=-1)
    found = await anyhow
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 2)


@pytest.mark.slow
@on_cluster(3)
async def test_who_waits_at_a_leader_stays_when_it_follows_if_it_can(cluster: Cluster) -> None:
    await cluster.take(FIRST)
    await produce(cluster, 1, b"a")
    await are_parked(cluster, 2, 3)
    old = asyncio.create_task(fetch(cluster, 1, 1, version=10))
    new = asyncio.create_task(fetch(cluster, 1, 1))
    await until(lambda: len(cluster[1].partition().waiters) == 2)
    await cluster.take(state_of(2, 1, isr=[1, 2, 3], replicas=[1, 2, 3]))
    assert (await old).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await produce(cluster, 2, b"b", acks=-1)
    assert (await new).high_watermark == 2


@on_cluster(3)
async def test_who_waits_at_a_replica_that_goes_is_sent_away(cluster: Cluster) -> None:
    await cluster.take(FIRST)
    await produce(cluster, 1, b"a")
    await are_parked(cluster, 2, 3)
    waiting = asyncio.create_task(fetch(cluster, 2, 1))
    await until(lambda: bool(cluster[2].partition().waiters))
    partition = cluster[2].partition()
    cluster[2].replicas.stop_serving([(TOPIC, 0)])
    assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.waiters


@on_cluster(2, replica_selector_class=SELECTOR)
async def test_the_leader_names_the_follower_in_the_rack(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, isr=[1, 2], replicas=[1, 2]))
    brokers = cluster[1].metadata.brokers
    racks = [broker._replace(rack=f"r{broker.broker_id}") for broker in brokers.values()]
    cluster[1].metadata.update_brokers(1, racks)
    await produce(cluster, 1, b"a", acks=-1)
    found = await fetch(cluster, 1, 1, rack="r2", wait_ms=60_000)
    assert (found.preferred_read_replica, found.records) == (2, b""), "at once, though none is new"
    for rack, version in (("r1", 11), ("", 11), ("r2", 10)):
        found = await fetch(cluster, 1, 0, rack=rack, version=version)
        assert found.preferred_read_replica == -1
        assert found.records
