"""Fetches of whoever claims to be a follower, and is not, or is wrong: nothing changes.

The codes are those of Apache Kafka 3.9.2 (`tests/lab/test_hostile_followers.py` asks it).
"""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from odradek.protocol.primitives import INT64_MAX
from tests.broker.running import HOST
from tests.support.awaiting import until

from .cluster import TOPIC, TOPIC_ID, Cluster, on_cluster, produce, replicating, state_of

EPOCH: Final = 3
END: Final = 4
Cases = dict[str, tuple[dict[str, Any], ErrorCode]]


def cases_in(epoch: int) -> Cases:
    """What may be wrong with a Fetch at a leader in this epoch, with four records."""
    return {
        "outside the assignment": ({"replica_id": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        "the leader itself": ({"replica_id": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        "outside, without an epoch": (
            {"replica_id": 9, "epoch": -1},
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
        "an earlier epoch": ({"epoch": epoch - 1}, ErrorCode.FENCED_LEADER_EPOCH),
        "a later epoch": ({"epoch": epoch + 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        "beyond the end": ({"offset": END + 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        "far beyond the end": ({"offset": INT64_MAX}, ErrorCode.OFFSET_OUT_OF_RANGE),
        "before the start": ({"offset": -7}, ErrorCode.OFFSET_OUT_OF_RANGE),
        "a last epoch that is still to come": (
            {"last_epoch": epoch + 1},
            ErrorCode.OFFSET_OUT_OF_RANGE,
        ),
        "another log": ({"last_epoch": epoch - 1}, ErrorCode.NONE),
        "another topic's id": ({"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        "a partition that is not there": ({"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }


def claimed(
    *,
    replica_id: int = 2,
    epoch: int = EPOCH,
    offset: int = END,
    last_epoch: int = -1,
    topic: str = TOPIC,
    topic_id: bytes = TOPIC_ID,
    index: int = 0,
) -> FetchRequest:
    """What a follower at the log end would ask, but for what is given."""
    wanted = FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=77),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
    )


def state_seen(cluster: Cluster) -> tuple[object, ...]:
    """All that a follower's Fetch could change."""
    leader = cluster[1]
    partition = leader.partition()
    log = partition.log
    followers = {
        replica: {name: getattr(follower, name) for name in follower.__slots__}
        for replica, follower in partition.followers.items()
    }
    return (
        followers,
        partition.in_sync,
        partition.state,
        (log.log_start_offset, log.high_watermark, log.log_end_offset, log.epochs.entries()),
        partition.low_watermark([2]),
        len(leader.controller.asked),
        leader.bytes_of(),
    )


async def with_records(cluster: Cluster) -> None:
    """A leader of four records; 2 is not in sync, and does not fetch."""
    cluster[2].replicator.stopped([(TOPIC, 0)])
    await cluster[1].take(state_of(1, EPOCH, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b", b"c", b"d")


@on_cluster()
async def test_nothing_changes(cluster: Cluster) -> None:
    await with_records(cluster)
    client = await cluster[1].client()
    for what, (given, code) in cases_in(EPOCH).items():
        for version in (12, 17):
            if version == 12 and "topic_id" in given:
                continue
            before = state_seen(cluster)
            answer: FetchResponse = await client.ask(claimed(**given), version)
            (data,) = answer.responses[0].partitions
            assert (answer.error_code, data.error_code) == (0, code), what
            assert not data.records
            assert state_seen(cluster) == before, what
    before = state_seen(cluster)
    await client.ask(claimed(), 17)
    assert state_seen(cluster) != before, "an honest one would have been noted"
    await until(lambda: cluster[1].partition().state.isr == (1, 2))


def test_brokers_have_a_listener_of_their_own(tmp_path: Path) -> None:
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:0,BROKERS://{HOST}:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "max.incremental.fetch.session.cache.slots": "1",
    }

    async def main() -> None:
        async with replicating(tmp_path, 2, settings) as cluster:
            await with_records(cluster)
            before = state_seen(cluster)
            client = await cluster[1].client()  # at the first listener
            for version in (3, 4, 12, 13, 17):
                answer: FetchResponse = await client.ask(claimed(), version)
                (data,) = answer.responses[0].partitions
                assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                assert not data.records
            assert state_seen(cluster) == before
            consumer = await client.ask(claimed(replica_id=-1, epoch=-1, offset=0), 12)
            assert consumer.responses[0].partitions[0].error_code == 0
            for replica_id, is_given in ((-1, True), (2, False)):  # the only slot there is
                asked = claimed(replica_id=replica_id, epoch=-1)
                asked.session_epoch = 0
                answer = await client.ask(asked, 12)
                assert bool(answer.session_id) is is_given

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 12, 17])
def test_older_versions_name_no_epoch(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with replicating(tmp_path, 2) as cluster:
            await with_records(cluster)
            client = await cluster[1].client()
            before = state_seen(cluster)
            asked = claimed(replica_id=9, epoch=EPOCH)
            answer: FetchResponse = await client.ask(asked, version)
            wanted = ErrorCode.UNKNOWN_LEADER_EPOCH
            if version < 9:  # there is no epoch in it
                wanted = ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.responses[0].partitions[0].error_code == wanted
            assert state_seen(cluster) == before

    asyncio.run(main())
