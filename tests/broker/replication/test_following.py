"""A follower's log becomes its leader's, byte for byte, whatever it was before."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from unittest import mock

import pytest

from odradek.broker.runtime import OFFLOAD_THREADS_MAX
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.records import Codec, iter_batches
from odradek.storage.errors import CorruptLog
from odradek.storage.log.log import Log
from odradek.storage.log.staging import Staged
from tests.broker.batches import altered
from tests.storage.support import slow_staged
from tests.support.awaiting import until
from tests.support.messages import batch_of, records_in

from .cluster import KEY, TOPIC, Cluster, on_cluster, produce, read, replicating, state_of, write


@pytest.mark.parametrize("codec", list(Codec))
def test_all_codecs(tmp_path: Path, codec: Codec) -> None:
    async def main() -> None:
        async with replicating(tmp_path) as cluster:
            await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
            client = await cluster[1].client()
            for number in range(5):
                batch = batch_of(*[b"%d" % number] * 20, codec=codec)
                result = await client.produce(TOPIC, batch, acks=-1)
                assert (result.error_code, result.base_offset) == (0, 20 * number)
            await cluster.until_equal()
            assert cluster[2].partition().log.high_watermark == 100
            assert cluster[2].partition().log.epochs.entries() == [(0, 0)]

    asyncio.run(main())


@pytest.mark.slow
@on_cluster(count=3, compression_type="zstd")
async def test_followers_get_what_the_leader_has_recompressed(cluster: Cluster) -> None:
    """Small batches are recompressed at once, large ones on another thread."""
    await cluster.take(state_of(1, 0, [1, 2, 3], [1, 2, 3]))
    client = await cluster[1].client()
    sent: list[bytes] = []
    for codec in Codec:
        for size_bytes in (10, 500_000):
            values = [b"%d" % number * size_bytes for number in range(2)]
            result = await client.produce(TOPIC, batch_of(*values, codec=codec), acks=-1)
            assert (result.error_code, result.base_offset) == (0, len(sent))
            sent += values
    await cluster.until_equal()
    data = cluster[3].bytes_of()
    assert {header.codec for _, header in iter_batches(data)} == {Codec.ZSTD}
    assert [value for _, value in records_in(data)] == sent


@pytest.mark.slow
@on_cluster(count=3)
async def test_leaders_take_turns(cluster: Cluster) -> None:
    """Each leaves records that no other has; the next leader's count."""
    await cluster.take(state_of(1, 0, [1, 2, 3], [1, 2, 3]))
    await produce(cluster, 1, b"a", b"b", acks=-1)
    for turn in range(1, 7):
        leader, last = turn % 3 + 1, (turn - 1) % 3 + 1
        for broker in cluster.brokers.values():
            broker.replicator.stopped([KEY])
        before = cluster[last].partition().log.log_end_offset
        await produce(cluster, last, b"lost", b"lost too")
        await cluster.take(state_of(leader, turn, [1, 2, 3], [1, 2, 3]))
        await produce(cluster, leader, b"kept %d" % turn, acks=-1)
        await cluster.until_equal()
        assert cluster[last].partition().log.log_end_offset == before + 1
        assert b"lost" not in cluster[1].bytes_of()
    entries = [broker.partition().log.epochs.entries() for broker in cluster.brokers.values()]
    assert entries == [[(0, 0), *((turn, turn + 1) for turn in range(1, 7))]] * 3


@on_cluster()
async def test_an_epoch_in_which_nothing_was_written(cluster: Cluster) -> None:
    """1 led epoch 2 without a word; the leader of epoch 3 has never heard of that."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    await cluster[1].take(state_of(1, 2, [1], [1, 2]))
    assert cluster[1].partition().log.epochs.entries() == [(0, 0), (2, 1)]
    await cluster[2].take(state_of(2, 3, [2], [1, 2]))
    await cluster[1].take(state_of(2, 3, [2], [1, 2]))
    await produce(cluster, 2, b"b")
    await cluster.until_equal()
    assert cluster[1].partition().log.epochs.entries() == [(0, 0), (3, 1)]


async def write_without_epochs(cluster: Cluster) -> None:
    """To the log of 2, which knows of no leader epoch then, and of nothing that is committed."""
    await cluster[2].take(state_of(2, 0, [2], [1, 2]))
    await produce(cluster, 2, b"other")
    log = cluster[2].partition().log
    log.epochs.truncate_end(0)
    log._high_watermark = 0


@on_cluster()
async def test_a_log_without_epochs_is_only_sure_of_what_is_committed(cluster: Cluster) -> None:
    await write_without_epochs(cluster)
    await cluster[1].take(state_of(1, 1, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b")
    await cluster[2].take(state_of(1, 1, [1], [1, 2]))
    await cluster.until_equal()


@on_cluster()
async def test_nothing_is_fetched_for_a_log_that_could_not_be_cut(cluster: Cluster) -> None:
    await write_without_epochs(cluster)
    truncate, tries = Log.truncate, 3

    def fail_at_first(log: Log, offset: int) -> int:
        nonlocal tries
        tries -= 1
        if tries > 0:
            raise CorruptLog("it can't be walked")
        return truncate(log, offset)

    await cluster[1].take(state_of(1, 1, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b")
    with mock.patch.object(Log, "truncate", fail_at_first):
        await cluster[2].take(state_of(1, 1, [1], [1, 2]))
        await cluster.until_equal()
    assert tries == 0


@on_cluster()
async def test_records_were_deleted_before_the_follower_came(cluster: Cluster) -> None:
    """The leader's log starts between batches, then within one."""
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b", b"c")
    log = cluster[1].partition().log
    log.advance_log_start(2)
    await cluster[2].take(state_of(1, 0, [1], [1, 2]))
    follower = cluster[2].partition().log
    await until(lambda: follower.log_end_offset == 3)
    assert (follower.log_start_offset, follower.segments.first_offset) == (2, 2)


@on_cluster()
async def test_the_leader_starts_within_a_batch(cluster: Cluster) -> None:
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    client = await cluster[1].client()
    await client.append(TOPIC, batch_of(*[b"v"] * 10), acks=1)
    cluster[1].partition().log.advance_log_start(5)
    await cluster[2].take(state_of(1, 0, [1], [1, 2]))
    await cluster.until_equal()
    follower = cluster[2].partition().log
    await until(lambda: follower.log_start_offset == 5)
    assert follower.segments.first_offset == 0


@on_cluster()
async def test_the_leader_knows_no_such_epoch(cluster: Cluster) -> None:
    """Then its end counts, if it is the earlier one."""
    await cluster[1].take(state_of(1, 5, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b")
    await cluster[2].take(state_of(2, 5, [2], [1, 2]))
    await produce(cluster, 2, b"c", b"d", b"e")
    cluster[2].partition().log.epochs.assign(9, 0)
    await cluster[2].take(state_of(1, 6, [1], [1, 2]))
    await cluster[1].take(state_of(1, 6, [1], [1, 2]))
    log = cluster[2].partition().log
    await until(lambda: log.log_end_offset == 2)
    assert log.high_watermark <= 2


@on_cluster()
async def test_compaction_leaves_gaps(cluster: Cluster) -> None:
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    log = cluster[1].partition().log
    for base_offset in (3, 90, 4_000):
        batch = altered(batch_of(b"v"), base_offset=base_offset, partition_leader_epoch=0)
        log.append_as_follower(memoryview(batch), wall_ms=0)
    await cluster.take(state_of(1, 1, [1], [1, 2]))
    await cluster.until_equal()
    assert cluster[2].partition().log.log_end_offset == 4_001


@pytest.mark.slow
@on_cluster(min_insync_replicas="2")
async def test_a_gap_beyond_the_high_watermark_is_taken_in_the_end(cluster: Cluster) -> None:
    """Of a topic that was compacted once, and whose high watermark waits for this very follower."""
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    log = cluster[1].partition().log
    for base_offset in (0, 9):
        batch = altered(batch_of(b"v"), base_offset=base_offset, partition_leader_epoch=0)
        log.append_as_follower(memoryview(batch), wall_ms=0)
    await cluster.take(state_of(1, 1, [1], [1, 2]))
    assert log.high_watermark == 0
    await cluster.until_equal()
    assert cluster[2].partition().log.log_end_offset == 10


@on_cluster()
async def test_a_topic_without_an_id_is_fetched_by_name(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2], topic_id=ZERO_UUID))
    await produce(cluster, 1, b"a", acks=-1)
    await cluster.until_equal()


@pytest.mark.slow
@on_cluster()
async def test_the_leader_is_not_known_yet(cluster: Cluster) -> None:
    """It is told of its role later, and where it is later still."""
    elsewhere = cluster[1].info._replace(endpoints={})
    cluster[2].metadata.update_brokers(1, [elsewhere, cluster[2].info])
    await cluster[2].take(state_of(1, 0, [1, 2], [1, 2]))
    ((fetcher, _),) = cluster[2].replicator._fetchers.values()
    await until(lambda: fetcher._trouble._said_at_ms is not None)
    cluster.introduce()
    await until(lambda: fetcher.followed[KEY].delayed_until_ms > 0)
    await cluster[1].take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    await cluster.until_equal()


@pytest.mark.slow
@on_cluster()
async def test_many_partitions_in_one_session(cluster: Cluster) -> None:
    states = [state_of(1, 0, [1, 2], [1, 2], partition=number) for number in range(30)]
    await cluster.take(*states)
    client = await cluster[1].client()
    for number in range(30):
        await client.append(TOPIC, batch_of(b"%d" % number), partition=number, acks=-1)
    await asyncio.gather(*(cluster.until_equal((TOPIC, number)) for number in range(30)))
    (session,) = cluster[1].node.fetch_sessions.slots.sessions.values()
    assert (session.is_follower, session.size) == (True, 30)
    await cluster.take(*(s._replace(leader=2, leader_epoch=1) for s in states[:10]))
    await until(lambda: session.size == 20)


@pytest.mark.slow
@on_cluster()
async def test_a_session_that_is_gone_is_opened_anew(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    slots = cluster[1].node.fetch_sessions.slots
    await until(lambda: slots.sessions)
    (session_id,) = slots.sessions
    slots.close(session_id)
    await produce(cluster, 1, b"a", acks=-1)
    assert session_id not in slots.sessions


@on_cluster(num_replica_fetchers="3")
async def test_several_connections_to_a_leader(cluster: Cluster) -> None:
    states = [state_of(1, 0, [1, 2], [1, 2], partition=number) for number in range(6)]
    await cluster.take(*states)
    replicator = cluster[2].replicator
    assert sorted(replicator._fetchers) == [(1, 0), (1, 1), (1, 2)]
    cluster[2].config.num_replica_fetchers = 1
    replicator.settings_changed()
    assert sorted(replicator._fetchers) == [(1, 0)]
    client = await cluster[1].client()
    for number in range(6):
        await client.append(TOPIC, batch_of(b"v"), partition=number, acks=-1)
    replicator.stopped([state.key for state in states])
    assert not replicator._fetchers


@on_cluster()
async def test_a_batch_that_is_damaged_on_its_way(cluster: Cluster) -> None:
    """It is not kept, and fetched again and again until it is right."""
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b")
    file = cluster[1].partition().log.segments.active.file
    right = file.pread(file.size_bytes, 0)
    write(file.path, right[:-1] + b"X")
    await cluster[2].take(state_of(1, 0, [1], [1, 2]))
    log = cluster[2].partition().log
    await until(lambda: log.log_end_offset == 1)
    write(file.path, right)
    await cluster.until_equal()


@on_cluster()
async def test_much_at_once(cluster: Cluster) -> None:
    """A thread writes it before it is appended."""
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    await produce(cluster, 1, b"a", *[b"%d" % number * 300_000 for number in range(9)])
    with mock.patch.object(Staged, "run", autospec=True, side_effect=Staged.run) as run:
        await cluster[2].take(state_of(1, 0, [1], [1, 2]))
        await cluster.until_equal()
    assert run.called


@pytest.mark.slow
@on_cluster()
async def test_a_follower_leads_while_a_thread_writes(cluster: Cluster) -> None:
    """What was written for the follower is no part of what it has as a leader."""
    begun, go_on = threading.Event(), threading.Event()

    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    await cluster.until_equal()
    with mock.patch("odradek.storage.log.log_file.Staged", slow_staged(begun, go_on)):
        await produce(cluster, 1, b"lost" * 100_000)
        await until(begun.is_set)
    await cluster[2].take(state_of(2, 1, [2], [1, 2]))
    await cluster[1].take(state_of(2, 1, [2], [1, 2]))
    go_on.set()
    await produce(cluster, 2, b"b")
    await cluster.until_equal()
    log = cluster[2].partition().log
    assert log.epochs.entries() == [(0, 0), (1, 1)]
    assert b"lost" not in read(log.segments.active.file.path)


@on_cluster()
async def test_much_at_once_while_no_descriptor_is_left(cluster: Cluster) -> None:
    """The file is open, so that it can still be appended to."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    with mock.patch.object(os, "dup", side_effect=OSError(errno.EMFILE, "too many")) as dup:
        await produce(cluster, 1, b"b" * 300_000, acks=-1)
    assert dup.called
    await cluster.until_equal()


@on_cluster()
async def test_much_at_once_while_all_flushes_hang(cluster: Cluster) -> None:
    """Those of another directory, say: who is in sync stays so."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    go_on = threading.Event()
    hanging = [cluster[2].runtime.offload(go_on.wait, 60) for _ in range(OFFLOAD_THREADS_MAX)]
    try:
        async with asyncio.timeout(20):
            await produce(cluster, 1, b"b" * 300_000, acks=-1)
    finally:
        go_on.set()
        await asyncio.gather(*hanging)
    await cluster.until_equal()
