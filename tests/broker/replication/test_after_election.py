"""A new leader that does not know yet what its predecessors have committed."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.awaiting import until
from tests.support.messages import batch_of

from .cluster import KEY, TOPIC, Cluster, on_cluster, produce, state_of

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGER, BROKER = -1, -2, 3
TIMES_MS = 1_000, 2_000, 3_000
ELECTED = state_of(2, 1, isr=[2, 3], replicas=[1, 2, 3])


async def list_offsets(
    cluster: Cluster,
    timestamp: int,
    version: int = 9,
    *,
    replica_id: int = CONSUMER,
    isolation_level: int = 0,
) -> tuple[int, int]:
    """Error code and offset, told by broker 2."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])],
    )
    client = await cluster[2].client()
    found = (await client.ask(request, version)).topics[0].partitions[0]
    old = found.old_style_offsets
    return found.error_code, old[0] if old else found.offset


async def elected(cluster: Cluster) -> None:
    """Broker 2 leads with three records; only the first is known to be committed."""
    await cluster.take(state_of(1, 0, isr=[1, 2, 3], replicas=[1, 2, 3]))
    client = await cluster[1].client()
    await client.append(TOPIC, batch_of(b"a", timestamp=TIMES_MS[0]), acks=-1)
    logs = [cluster[broker].partition().log for broker in (1, 2, 3)]
    await until(lambda: all(log.high_watermark == 1 for log in logs))
    cluster[3].replicator.stopped([KEY])
    for time_ms in TIMES_MS[1:]:
        await client.append(TOPIC, batch_of(b"b", timestamp=time_ms), acks=1)
    await until(lambda: logs[1].log_end_offset == 3)
    await cluster[2].take(ELECTED)
    assert logs[1].high_watermark == 1


@on_cluster(3)
async def test_offsets_that_may_go_back_are_not_told(cluster: Cluster) -> None:
    await elected(cluster)
    unavailable = ErrorCode.OFFSET_NOT_AVAILABLE, -1
    for version, answer in (
        (9, unavailable),
        (5, unavailable),
        (4, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
        (1, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
        (0, (ErrorCode.NONE, 1)),
    ):
        assert await list_offsets(cluster, LATEST, version) == answer, version
    assert await list_offsets(cluster, LATEST, isolation_level=1) == unavailable
    assert await list_offsets(cluster, EARLIEST) == (ErrorCode.NONE, 0)
    assert await list_offsets(cluster, TIMES_MS[0]) == (ErrorCode.NONE, 0)
    for timestamp in (*TIMES_MS[1:], TIMES_MS[2] + 1, MAX_TIMESTAMP):
        assert await list_offsets(cluster, timestamp) == unavailable, timestamp
    for replica_id in (DEBUGGER, BROKER):
        found = await list_offsets(cluster, LATEST, replica_id=replica_id)
        assert found == (ErrorCode.NONE, 3), replica_id


@pytest.mark.slow
@on_cluster(3)
async def test_they_are_told_once_they_can_not_go_back(cluster: Cluster) -> None:
    await elected(cluster)
    for broker in (1, 3):
        await cluster[broker].take(ELECTED)
    log = cluster[2].partition().log
    await until(lambda: log.high_watermark == 3)
    assert await list_offsets(cluster, LATEST) == (ErrorCode.NONE, 3)
    assert await list_offsets(cluster, MAX_TIMESTAMP) == (ErrorCode.NONE, 2)
    assert await list_offsets(cluster, TIMES_MS[2] + 1) == (ErrorCode.NONE, -1)
    await produce(cluster, 2, b"c")
    assert await list_offsets(cluster, LATEST) in ((ErrorCode.NONE, 3), (ErrorCode.NONE, 4))
