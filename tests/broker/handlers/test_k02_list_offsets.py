import asyncio

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.records import Codec, Record, build_batch
from odradek.storage.log.timestamps import AT_ONCE_RECORDS_MAX, LongSearch
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.messages import batch_of, list_offsets

from .test_waiting_produce import HeldThreads

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
UNKNOWN = (-1, -1, -1)


async def look_up(
    client: Client, timestamp: int, version: int = 9, *, topic: str = "t", partition: int = 0
) -> ListOffsetsPartitionResponse:
    answer = await client.ask(list_offsets(topic, timestamp, partition=partition), version)
    found: ListOffsetsPartitionResponse = answer.topics[0].partitions[0]
    return found


def of(found: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    assert found.error_code == 0
    return found.timestamp, found.offset, found.leader_epoch


@on_broker(both=False)
async def test_what_is_named_by_negative_timestamps(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        assert of(await look_up(client, timestamp))[1] == 0
    assert of(await look_up(client, MAX_TIMESTAMP)) == UNKNOWN
    for timestamp in (1000, 3000, 2000):
        await client.append("t", batch_of(b"a", b"b", timestamp=timestamp))
    assert of(await look_up(client, LATEST)) == (-1, 6, 0)
    assert of(await look_up(client, EARLIEST)) == (-1, 0, 0)
    assert of(await look_up(client, EARLIEST_LOCAL)) == (-1, 0, 0)
    assert of(await look_up(client, MAX_TIMESTAMP)) == (3000, 2, 0)
    assert of(await look_up(client, LATEST_TIERED)) == UNKNOWN


@on_broker(both=False)
async def test_by_time(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    times = (1000, 3000, 2000)
    await client.append("t", build_batch([Record(n, t, None, b"") for n, t in enumerate(times)]))
    await client.append("t", batch_of(b"a", timestamp=5000))
    expected = {0: (1000, 0, 0), 1000: (1000, 0, 0), 1001: (3000, 1, 0), 3001: (5000, 3, 0)}
    for timestamp, found in expected.items():
        assert of(await look_up(client, timestamp)) == found
    assert of(await look_up(client, 5001)) == UNKNOWN


@on_broker(both=False)
async def test_each_name_has_a_first_version(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    firsts = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
    for timestamp, first in firsts.items():
        for version in range(10):
            code = (await look_up(client, timestamp, version)).error_code
            expected = 0 if version >= first else ErrorCode.UNSUPPORTED_VERSION
            assert code == expected, (timestamp, version)
    for timestamp in (-6, -100, -(1 << 63)):
        assert (await look_up(client, timestamp)).error_code == ErrorCode.UNSUPPORTED_VERSION


@on_broker(both=False)
async def test_version_0_answers_a_list(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a", b"b"))
    assert (await look_up(client, LATEST, 0)).old_style_offsets[0] == 2
    assert (await look_up(client, EARLIEST, 0)).old_style_offsets == [0]
    asked = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST, max_num_offsets=0)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
    answer = await client.ask(request, 0)
    assert answer.topics[0].partitions[0].old_style_offsets == []


@on_broker(both=False)
async def test_refusals(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await look_up(client, LATEST, topic="absent")).error_code == unknown
    assert (await look_up(client, LATEST, partition=2)).error_code == unknown
    for epoch, code in ((5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)):
        asked = ListOffsetsPartition(
            partition_index=0, timestamp=LATEST, current_leader_epoch=epoch
        )
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        answer = await client.ask(request, 9)
        assert answer.topics[0].partitions[0].error_code == code
    twice = [ListOffsetsPartition(partition_index=n, timestamp=LATEST) for n in (0, 1, 0)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=twice)])
    codes = {
        p.partition_index: p.error_code for p in (await client.ask(request, 9)).topics[0].partitions
    }
    assert codes == {0: ErrorCode.INVALID_REQUEST, 1: 0}


@pytest.mark.parametrize("isolation_level", [0, 1])
@on_broker(both=False)
async def test_without_transactions_all_is_committed(
    broker: RunningBroker, isolation_level: int
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    request = list_offsets("t", LATEST)
    request.isolation_level = isolation_level
    answer = await client.ask(request, 9)
    assert answer.topics[0].partitions[0].offset == 1


HEAVY = {
    "many": [b""] * (AT_ONCE_RECORDS_MAX + 1),
    "compressed": [b"", b"", b""],
}


@pytest.mark.parametrize("kind", HEAVY)
@on_broker(both=False)
async def test_a_thread_searches_what_takes_long(broker: RunningBroker, kind: str) -> None:
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"", timestamp=1000))
    codec = Codec.ZSTD if kind == "compressed" else Codec.NONE
    await client.append("t", batch_of(*HEAVY[kind], timestamp=2000, codec=codec))
    assert of(await look_up(client, 500)) == (1000, 0, 0)
    threads = HeldThreads(broker)
    for timestamp in (2000, MAX_TIMESTAMP):
        looking = asyncio.ensure_future(look_up(client, timestamp))
        await until(lambda: threads.begun)
        assert of(await look_up(other, LATEST))[1] == 1 + len(HEAVY[kind])
        assert not looking.done()
        threads.go_on.set()
        assert of(await looking) == (2000, 1, 0)
        threads.go_on.clear()
        threads.begun = 0


@on_broker(both=False)
async def test_nothing_of_a_long_search_is_left_to_the_collector(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"", timestamp=1000, codec=Codec.GZIP))
    async with nothing_left(LongSearch):
        for timestamp in (500, MAX_TIMESTAMP):
            assert of(await look_up(client, timestamp)) == (1000, 0, 0)


@on_broker(both=False)
async def test_a_search_that_finds_nothing_goes_on(broker: RunningBroker) -> None:
    """The records that fit are before the start of the log, which is within the batch."""
    client = await broker.client()
    await client.create_topic("t")
    records = [Record(number, time, None, b"") for number, time in enumerate((9000, 1000, 1000))]
    await client.append("t", build_batch(records, codec=Codec.GZIP))
    await client.append("t", batch_of(b"", timestamp=7000, codec=Codec.LZ4))
    assert of(await look_up(client, 5000)) == (9000, 0, 0)
    broker.node.replicas.partitions["t", 0].log.advance_log_start(1)
    assert of(await look_up(client, 5000)) == (7000, 3, 0)


@on_broker(both=False)
async def test_many_partitions_are_answered_in_order(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    await client.append("t", batch_of(b"a", timestamp=1000))
    asked = [ListOffsetsPartition(partition_index=n, timestamp=0) for n in range(1000)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=asked)])
    request.replica_id = -1
    answer = await client.ask(request, 9)
    found = answer.topics[0].partitions
    assert [each.partition_index for each in found] == list(range(1000))
    assert (of(found[0]), of(found[1])) == ((1000, 0, 0), UNKNOWN)
    absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {each.error_code for each in found[2:]} == {absent}
