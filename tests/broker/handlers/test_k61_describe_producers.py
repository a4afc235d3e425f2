from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from odradek.protocol.records import Marker, MarkerType
from tests.broker.running import RunningBroker, on_broker
from tests.storage.log.test_txn_index import Producers
from tests.support.client import Client
from tests.support.messages import batch_of, error_codes

TIMESTAMP = 1_700_000_000_000


async def describe(client: Client, topic: str, *partitions: int) -> list[PartitionResponse]:
    asked = TopicRequest(name=topic, partition_indexes=list(partitions))
    (found,) = (await client.ask(DescribeProducersRequest(topics=[asked]), 0)).topics
    assert found.name == topic
    responses: list[PartitionResponse] = found.partitions
    return responses


@on_broker(both=False)
async def test_producers(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    for producer_id, epoch in ((30, 0), (7, 2)):
        batch = batch_of(b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        await client.append("t", batch)
    await client.append("t", batch_of(b"c"))
    first, second = await describe(client, "t", 0, 1)
    assert [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp)
        for p in first.active_producers
    ] == [(30, 0, 1, TIMESTAMP), (7, 2, 1, TIMESTAMP)]
    assert {(p.coordinator_epoch, p.current_txn_start_offset) for p in first.active_producers} == {
        (-1, -1)
    }
    assert (second.error_code, second.active_producers) == (0, [])


@on_broker(both=False)
async def test_a_partition_is_described_once(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    asked = [TopicRequest(name="t", partition_indexes=indexes) for indexes in ([1, 0, 1], [0])]
    (found,) = (await client.ask(DescribeProducersRequest(topics=asked), 0)).topics
    assert [each.partition_index for each in found.partitions] == [1, 0]


@on_broker(both=False)
async def test_what_cannot_be_described(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_codes(await describe(client, "t", 1, -1)) == [unknown, unknown]
    assert error_codes(await describe(client, "absent", 0)) == [unknown]
    for bad in ("a b", ""):
        assert error_codes(await describe(client, bad, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


@on_broker(both=False)
async def test_a_follower_answers_too(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    partition = broker.node.replicas.partitions["t", 0]
    producers = Producers(partition.log)
    producers.write(7, b"a")
    partition.append_marker(
        Marker(MarkerType.COMMIT, 5), producer_id=8, producer_epoch=1, wall_ms=TIMESTAMP
    )
    partition.is_leader = False
    (found,) = await describe(client, "t", 0)
    assert found.error_code == ErrorCode.NONE
    assert [
        (p.producer_id, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
        for p in found.active_producers
    ] == [(7, 0, -1, 0), (8, -1, 5, -1)]
