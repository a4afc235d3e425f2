"""Readers of committed records, on a log that holds transactions as another broker left them."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.records import MarkerType
from tests.broker.running import RunningBroker, on_broker
from tests.storage.log.test_txn_index import Producers
from tests.support.client import Client

COMMITTED = 1


async def latest(client: Client, isolation_level: int) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    offset: int = (await client.ask(request, 7)).topics[0].partitions[0].offset
    return offset


async def transactions(broker: RunningBroker, client: Client) -> None:
    """Offsets: 0 of 1, 1 of 2, 2 aborts 1, 3 commits 2, 4 of 3."""
    await client.create_topic("t")
    log = broker.node.replicas.partitions["t", 0].log
    producers = Producers(log)
    producers.write(1, b"a")
    producers.write(2, b"b")
    producers.end(1, MarkerType.ABORT)
    producers.end(2, MarkerType.COMMIT)
    producers.write(3, b"c")
    log.high_watermark = log.log_end_offset


@on_broker()
async def test_a_fetch_ends_at_the_last_stable_offset(broker: RunningBroker) -> None:
    client = await broker.client()
    await transactions(broker, client)
    answer = await client.fetch("t", isolation_level=COMMITTED)
    assert (answer.high_watermark, answer.last_stable_offset) == (5, 4)
    aborted = answer.aborted_transactions
    assert aborted is not None
    assert [(a.producer_id, a.first_offset) for a in aborted] == [(1, 0)]
    everything = await client.fetch("t")
    assert everything.aborted_transactions is None
    assert (everything.high_watermark, everything.last_stable_offset) == (5, 4)
    assert isinstance(answer.records, memoryview)
    assert isinstance(everything.records, memoryview)
    assert len(answer.records) < len(everything.records)
    assert bytes(everything.records).startswith(bytes(answer.records))
    later = await client.fetch("t", 3, isolation_level=COMMITTED)
    assert later.aborted_transactions == []


@on_broker(both=False)
async def test_a_fetch_at_the_last_stable_offset_gets_nothing(broker: RunningBroker) -> None:
    client = await broker.client()
    await transactions(broker, client)
    answer = await client.fetch("t", 4, isolation_level=COMMITTED)
    assert not answer.records
    assert answer.error_code == 0


@on_broker(both=False)
async def test_with_a_broken_index_no_aborted_record_is_shown(broker: RunningBroker) -> None:
    client = await broker.client()
    await transactions(broker, client)
    segment = broker.node.replicas.partitions["t", 0].log.segments.active
    segment.txn_index.file.truncate(33)
    segment.rest()  # what is in memory is right
    answer = await client.fetch("t", isolation_level=COMMITTED)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not answer.records
    assert not segment.file.referenced


@on_broker(both=False)
async def test_the_end_that_list_offsets_tells(broker: RunningBroker) -> None:
    client = await broker.client()
    await transactions(broker, client)
    assert await latest(client, 0) == 5
    assert await latest(client, COMMITTED) == 4
