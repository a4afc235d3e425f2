"""Followers delete records as their leader does, which answers once that would survive a crash."""

import asyncio
from unittest import mock

import pytest

from odradek.broker.replication import fetcher
from odradek.broker.replication.asking import fetch_request
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k21_delete_records import DeleteRecordsResponse
from odradek.storage.log.checkpoint import LOG_START, parse_offsets
from odradek.storage.log.log import Log
from tests.broker.faulty_files import FULL
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import delete_records

from .cluster import KEY, Cluster, on_cluster, produce, read, state_of


@pytest.mark.slow
@on_cluster()
async def test_deleted_records_are_deleted_on_followers(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", b"b", b"c", acks=-1)
    await cluster.until_equal()
    client = await cluster[1].client()

    async def delete(offset: int, timeout_ms: int) -> tuple[int, int]:
        request = delete_records((*KEY, offset))
        request.timeout_ms = timeout_ms
        answer: DeleteRecordsResponse = await client.ask(request, 2)
        (result,) = answer.topics[0].partitions
        return result.low_watermark, result.error_code

    assert await delete(1, 5_000) == (1, 0)
    assert cluster[2].partition().log.log_start_offset == 1
    cluster[2].replicator.stopped([KEY])
    assert await delete(2, 20) == (-1, ErrorCode.REQUEST_TIMED_OUT)
    cluster[1].metadata.update_brokers(1, [cluster[1].info])
    assert await delete(2, 0) == (2, 0), "the other one is dead"
    assert not cluster[1].partition().waiters


@pytest.mark.slow
@on_cluster(3)
async def test_a_deletion_that_is_answered_survives_the_death_of_all(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2, 3], [1, 2, 3]))
    await produce(cluster, 1, b"a", b"b", b"c", acks=-1)
    await cluster.until_equal()
    client = await cluster[1].client()
    answer: DeleteRecordsResponse = await client.ask(delete_records((*KEY, 2)), 2)
    (result,) = answer.topics[0].partitions
    assert (result.low_watermark, result.error_code) == (2, 0)
    for broker in cluster.brokers.values():
        data_dir = broker.log_dirs.of(broker.partition().log.directory)
        assert data_dir is not None
        assert parse_offsets(read(f"{data_dir.path}/{LOG_START}")) == {KEY: 2}


async def with_a_full_disk(cluster: Cluster) -> tuple[Client, Log]:
    """Two records on a leader and a follower that can't note its log start; the leader's client."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", b"b", acks=-1)
    await cluster.until_equal()
    cluster[2].files.where = LOG_START
    cluster[2].files.faults["write"] = FULL
    return await cluster[1].client(), cluster[2].partition().log


@pytest.mark.slow
@on_cluster(replica_high_watermark_checkpoint_interval_ms="20")
async def test_a_follower_with_a_full_disk_promises_no_start(cluster: Cluster) -> None:
    client, follower = await with_a_full_disk(cluster)
    deleting = asyncio.ensure_future(client.ask(delete_records((*KEY, 1)), 2))
    await until(lambda: follower.log_start_offset == 1)
    await produce(cluster, 1, b"c", acks=-1)
    assert cluster[1].partition().followers[2].log_start_offset == 0, "it has fetched since"
    assert not deleting.done()
    cluster[2].files.faults.clear()
    answer: DeleteRecordsResponse = await asyncio.wait_for(deleting, 10)
    assert answer.topics[0].partitions[0].low_watermark == 1


@on_cluster(replica_fetch_wait_max_ms="20000")
async def test_a_start_is_told_soon_after_its_checkpoint(cluster: Cluster) -> None:
    """The Fetch that leaves before the checkpoint is written does not wait for records."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", b"b", acks=-1)
    client, leader = await cluster[1].client(), cluster[1].partition()
    deleting = asyncio.ensure_future(client.ask(delete_records((*KEY, 1)), 2))
    await until(lambda: leader.log.log_start_offset == 1)
    await produce(cluster, 1, b"c", acks=-1)  # lets go the Fetch that waits
    answer: DeleteRecordsResponse = await asyncio.wait_for(deleting, 10)
    assert answer.topics[0].partitions[0].low_watermark == 1


@pytest.mark.slow
@on_cluster(replica_fetch_wait_max_ms="200")
async def test_a_start_that_a_full_disk_keeps_untold_makes_no_haste(cluster: Cluster) -> None:
    client, follower = await with_a_full_disk(cluster)
    with mock.patch(f"{fetcher.__name__}.fetch_request", wraps=fetch_request) as asking:
        deleting = asyncio.ensure_future(client.ask(delete_records((*KEY, 1)), 2))
        await until(lambda: follower.log_start_offset == 1)
        asking.reset_mock()
        await until(lambda: asking.call_count > 3)
        waits_ms = {call.kwargs["max_wait_ms"] for call in asking.call_args_list}
    assert waits_ms == {fetcher.UNTOLD_START_WAIT_MS}
    cluster[2].files.faults.clear()
    deleting.cancel()


@pytest.mark.slow
@on_cluster(3)
async def test_deleting_records_waits_no_longer_for_who_dies_meanwhile(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2, 3], [1, 2, 3]))
    await produce(cluster, 1, b"a", b"b", acks=-1)
    await cluster.until_equal()
    leader, client = cluster[1], await cluster[1].client()
    cluster[3].replicator.stopped([KEY])
    request = delete_records((*KEY, 1))
    request.timeout_ms = 60_000
    deleting = asyncio.ensure_future(client.ask(request, 2))
    await until(lambda: leader.partition().followers[2].log_start_offset == 1)
    assert not deleting.done()
    leader.metadata.update_brokers(1, [leader.info, cluster[2].info])
    leader.replicator.brokers_changed()
    answer: DeleteRecordsResponse = await asyncio.wait_for(deleting, 10)
    (result,) = answer.topics[0].partitions
    assert (result.low_watermark, result.error_code) == (1, 0)
