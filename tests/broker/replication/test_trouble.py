"""Followers whose disk, or whose leader, is in trouble."""

import asyncio
import threading
from unittest import mock

import pytest

from odradek.broker.core.log_uses import Use
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.core.replica_status import Claim, Presence
from odradek.broker.maintenance.unmade import Unmade
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.storage.errors import LogDirFailed
from tests.broker.asked import Asked
from tests.broker.faulty_files import BROKEN, FULL
from tests.support.awaiting import turns, until
from tests.support.messages import batch_of

from .cluster import KEY, TOPIC, TOPIC_ID, Cluster, Replicating, on_cluster, produce, state_of

OTHER = TOPIC, 1
BOTH = [
    state_of(1, 0, [1, 2], [1, 2], is_new=True),
    state_of(1, 0, [1, 2], [1, 2], is_new=True, partition=1),
]


async def produce_to_both(cluster: Cluster, *, acks: int) -> None:
    client = await cluster[1].client()
    for index in (0, 1):
        await client.append(TOPIC, batch_of(b"v"), partition=index, acks=acks)


def offline_on(replicating: Replicating) -> list[TopicPartition]:
    return [*replicating.replicas.statuses.where(Presence.OFFLINE)]


@pytest.mark.slow
@on_cluster()
async def test_a_broken_disk_takes_only_its_directory_along(cluster: Cluster) -> None:
    await cluster.take(*BOTH)
    await produce_to_both(cluster, acks=-1)
    follower = cluster[2]
    assert "/second/" in follower.partition(OTHER).log.directory
    follower.files.where, follower.files.faults = "/second/", {"append": BROKEN}
    await produce_to_both(cluster, acks=1)
    await until(lambda: OTHER in offline_on(follower))
    follower.files.faults = {}
    await produce(cluster, 1, b"w", acks=-1)
    await cluster.until_equal()
    assert list(follower.replicator._assigned) == [KEY]


@on_cluster(1)
async def test_a_directory_fails_while_a_replica_is_made_in_it(cluster: Cluster) -> None:
    replica = cluster[1]
    await replica.take(state_of(1, 0, [1], [1]))
    making, go_on = threading.Event(), threading.Event()

    def hold(operation: str) -> None:
        if operation == "create":
            making.set()
            go_on.wait(20)

    replica.files.before = hold
    taken = asyncio.ensure_future(replica.take(state_of(1, 0, [1], [1], partition=1)))
    await until(making.is_set)
    second = replica.log_dirs.paths[1]
    replica.replicas.take_offline(LogDirFailed("it is broken", f"{second}/file"))
    go_on.set()
    with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
        await taken
    assert offline_on(replica) == [OTHER]
    assert list(replica.replicas.partitions) == [KEY]


@pytest.mark.slow
@on_cluster()
async def test_a_full_disk_is_waited_for(cluster: Cluster) -> None:
    await cluster.take(*BOTH)
    await produce_to_both(cluster, acks=-1)
    follower = cluster[2]
    follower.files.where, follower.files.faults = "/second/", {"append": FULL}
    await produce_to_both(cluster, acks=1)
    await produce(cluster, 1, b"w", acks=-1)
    assert follower.partition(OTHER).log.log_end_offset == 1
    follower.files.faults = {}
    await cluster.until_equal(OTHER)


@pytest.mark.slow
@on_cluster()
async def test_nobody_leads_without_room_to_note_his_epoch(cluster: Cluster) -> None:
    """It would know of no followers, and acknowledge what it alone has."""
    await cluster.take(state_of(2, 0, [1, 2], [1, 2]))
    replica = cluster[1]
    replica.files.where, replica.files.faults = "leader-epoch", {"write": FULL}
    with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
        await replica.take(state_of(1, 1, [1, 2], [1, 2]))
    client = await replica.client()
    refused = await client.produce(TOPIC, batch_of(b"v"), acks=-1)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.files.faults = {}
    asked: list[object] = []
    replica.replicas.on_log_dir_failed = asked.append
    with mock.patch("odradek.broker.maintenance.unmade.RETRY_MS", 1):
        replica.tasks.spawn(Unmade(replica.replicas, replica.runtime).run(), "ask")
        await until(lambda: asked, "the controller takes it for offline")
    assert not [*replica.replicas.statuses.where(Claim.REFUSED)]
    await produce(cluster, 2, b"w", acks=-1)
    await cluster.take(state_of(1, 2, [1, 2], [1, 2]))
    assert replica.partition().log.epochs.entries() == [(0, 0), (2, 1)]
    await produce(cluster, 1, b"x", acks=-1)
    await cluster.until_equal()


@on_cluster(log_flush_interval_messages="1")
async def test_what_is_due_is_durable_before_the_leader_hears_of_it(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    leader, follower = cluster[1].partition(), cluster[2]
    arrived, gate = threading.Event(), threading.Event()

    def hold(operation: str) -> None:
        if operation == "sync":
            arrived.set()
            gate.wait(60)

    follower.files.before = hold
    client = await cluster[1].client()
    produced = asyncio.ensure_future(client.produce(TOPIC, batch_of(b"v"), acks=-1))
    await until(arrived.is_set)
    assert follower.partition().log.log_end_offset == 1
    await turns()  # enough for another fetch
    assert leader.followers[2].log_end_offset == 0
    gate.set()
    assert (await produced).error_code == 0
    assert follower.partition().log.recovery_point == 1


@on_cluster()
async def test_nothing_is_appended_between_a_cut_and_the_checkpoints(cluster: Cluster) -> None:
    """Those on disk say that more is safe than there is."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    follower = cluster[2]
    follower.replicator.stopped([KEY])
    await cluster[2].take(state_of(2, 1, [2], [1, 2]))
    await produce(cluster, 2, b"b", b"c")
    await follower.replicas.flushes.flush(follower.partition())
    follower.files.where, follower.files.faults = "checkpoint", {"write": FULL}
    await cluster.take(state_of(1, 2, [1], [1, 2]))
    await produce(cluster, 1, b"d")
    log = follower.partition().log
    await until(lambda: log.log_end_offset == 1)
    tries: list[str] = []
    follower.files.before = tries.append
    await until(lambda: tries.count("write") > 2)
    assert log.log_end_offset == 1
    follower.files.faults = {}
    await cluster.until_equal()


@on_cluster()
async def test_a_cut_does_not_wait_for_another_directory_that_is_full(cluster: Cluster) -> None:
    await cluster.take(*BOTH)
    await produce_to_both(cluster, acks=-1)
    follower = cluster[2]
    await follower.take(state_of(2, 1, [2], [1, 2]))
    await produce(cluster, 2, b"lost")
    follower.files.where, follower.files.faults = "/second/", {"write": FULL}
    await cluster.take(state_of(1, 2, [1], [1, 2]))
    await produce(cluster, 1, b"w", b"x")
    await cluster.until_equal()
    assert not follower.replicas.uses.having(Use.CUT)


@on_cluster()
async def test_a_flush_that_fails_when_nobody_waits_any_more(cluster: Cluster) -> None:
    """As that of a fetcher that has ended; a second fsync would say that all is well."""
    await cluster.take(*BOTH)
    await produce_to_both(cluster, acks=-1)
    replica, arrived, go_on = cluster[1], threading.Event(), threading.Event()

    def hold(operation: str) -> None:
        if operation == "sync":
            arrived.set()
            assert go_on.wait(60)

    replica.files.before = hold
    replica.files.where, replica.files.faults = "/second/", {"sync": BROKEN}
    flush = asyncio.create_task(replica.replicas.flushes.flush(replica.partition(OTHER)))
    await until(arrived.is_set)
    flush.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert offline_on(replica) == [OTHER]


@on_cluster()
async def test_a_swap_of_segments_is_waited_for(cluster: Cluster) -> None:
    await cluster[2].take(state_of(2, 0, [2], [1, 2]))
    await produce(cluster, 2, b"other")
    follower = cluster[2]
    log = follower.partition().log
    uses = follower.replicas.uses = Asked()
    uses.begin(log, Use.SWAPS)
    await cluster.take(state_of(1, 1, [1], [1, 2]))
    await uses.asked()
    assert log.log_end_offset == 1
    uses.end(log, Use.SWAPS)
    await until(lambda: log.log_end_offset == 0)


@pytest.mark.slow
@on_cluster()
async def test_the_leader_hangs_up(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    for number in range(3):
        await produce(cluster, 1, b"%d" % number, acks=-1)
        cluster[1].connections.close_all()
    await produce(cluster, 1, b"v", acks=-1)
    await cluster.until_equal()


@on_cluster()
async def test_a_topic_that_is_deleted_while_it_is_fetched(cluster: Cluster) -> None:
    await cluster.take(*BOTH)
    cluster[2].replicas.stop_serving([OTHER])
    await produce(cluster, 1, b"v", acks=-1)
    await until(lambda: len(cluster[2].replicator._fetchers[1, 0][0].followed) == 1)


# What a leader says to whom.


def asked(epoch: int = 0, offset: int = 0, last_epoch: int = -1) -> FetchTopic:
    return FetchTopic(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partitions=[
            FetchPartition(
                partition=0,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
        ],
    )


@pytest.mark.parametrize("version", [4, 9, 12, 13, 15, 17])
def test_what_a_leader_answers(tmp_path: object, version: int) -> None:
    @on_cluster(count=1)
    async def test(cluster: Cluster) -> None:
        await cluster.take(state_of(1, 3, [1], [1, 2]))
        await produce(cluster, 1, b"a", b"b")
        leader = cluster[1].partition()
        leader.become(leader.state._replace(leader_epoch=5, partition_epoch=5), 0)
        await produce(cluster, 1, b"c")
        client = await cluster[1].client()

        async def fetch(replica: int, topic: FetchTopic) -> tuple[int, bool, tuple[int, int]]:
            request = FetchRequest(
                replica_id=replica,
                replica_state=ReplicaState(replica_id=replica),
                session_epoch=-1,
                topics=[topic],
            )
            answer: FetchResponse = await client.ask(request, version)
            (data,) = answer.responses[0].partitions
            shared = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
            return data.error_code, bool(data.records), shared

        def position() -> int:
            return leader.followers[2].log_end_offset

        none = -1, -1
        names_epoch = version >= 9
        stranger = await fetch(7, asked(5))
        assert stranger[0] == (
            ErrorCode.UNKNOWN_LEADER_EPOCH if names_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert (await fetch(7, asked(-1)))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if names_epoch:
            assert (await fetch(2, asked(3)))[0] == ErrorCode.FENCED_LEADER_EPOCH
            assert (await fetch(2, asked(6)))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await fetch(2, asked(5, 9)))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        if version >= 12:
            assert await fetch(2, asked(5, 3, 4)) == (0, False, (3, 2))
            assert (await fetch(2, asked(5, 3, 9)))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        assert position() == -1, "none of this says how far it is"
        assert await fetch(2, asked(5, 1, 3)) == (0, True, none)
        assert position() == 1
        assert leader.in_sync.isr == (1,)

    test(tmp_path)  # type: ignore[arg-type]
