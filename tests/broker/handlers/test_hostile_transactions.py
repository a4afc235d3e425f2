"""Transactions of clients that lie, markers that are written by hand, and a log that is damaged."""

import logging
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import PartitionProduceData
from odradek.protocol.messages.k27_write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.records import Record, build_batch, read_header
from odradek.protocol.transaction_records import TransactionRecord, encode_record
from tests.broker.running import RunningBroker, on_broker
from tests.broker.transaction_requests import (
    NOBODY,
    Identity,
    add_partitions,
    end,
    write_markers,
)
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.connections import HungUp
from tests.support.messages import batch_of, produce_request

from .transacting import (
    ID,
    SETTINGS,
    STATE_TOPIC,
    TOPIC,
    Producer,
    committed,
    described,
    producer_of,
    ring,
    state_of,
)

INT64_MAX = (1 << 63) - 1
LAST_EPOCH = 32_767
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
FENCED = ErrorCode.PRODUCER_FENCED


# Forged producers.


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_forged_producers_change_nothing(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    client = producer.client
    await producer.begin(0)
    producer_id, epoch = producer.identity
    for forged, code in (
        (NOBODY, MAPPING),
        ((-2, -2), MAPPING),
        ((INT64_MAX, 0), MAPPING),
        ((producer_id + 1, epoch), MAPPING),
        ((producer_id, -1), FENCED),
        ((producer_id, epoch + 1), FENCED),
        ((producer_id, LAST_EPOCH), FENCED),
    ):
        added = await client.ask(add_partitions(ID, forged, TOPIC, 1), 3)
        (result,) = added.results_by_topic_v3_and_below[0].results_by_partition
        assert result.partition_error_code == code
        assert (await client.ask(end(ID, forged), 4)).error_code == code
    for claimed, code in (
        ((-2, -2), FENCED),
        ((INT64_MAX, 0), FENCED),
        ((producer_id, -1), ErrorCode.INVALID_REQUEST),
        ((-1, epoch), ErrorCode.INVALID_REQUEST),
    ):
        assert await producer.init(claimed) == code
    assert await state_of(client) == "Ongoing"
    assert (await described(client)).topics[0].partitions == [0]
    assert await producer.end() == 0


@on_broker(SETTINGS, both=False)
async def test_the_epoch_that_nobody_is_given(broker: RunningBroker) -> None:
    """A client claims it, and its transaction is aborted in time all the same."""
    producer = await producer_of(broker)
    shard = broker.node.transactions.shard_of(ID)
    transaction = shard.describe(ID)
    transaction.known = transaction.known._replace(producer_epoch=LAST_EPOCH)
    producer.identity = producer.identity[0], LAST_EPOCH
    await producer.begin(0)
    broker.clock.moved_ms += 71_000
    ring(broker)
    assert await state_of(producer.client) == "CompleteAbort"
    assert await producer.init() == 0
    assert producer.identity[1] == 0


def forged_batch(identity: Identity, **more: Any) -> bytearray:
    return batch_of(b"x", producer_id=identity[0], producer_epoch=identity[1], **more)


@on_broker(SETTINGS, both=False)
async def test_batches_that_are_in_no_transaction(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.add(0)
    mine = producer.identity
    begun: dict[str, Any] = {"base_sequence": 0, "is_transactional": True}

    async def code(batch: bytearray, transactional_id: str | None = ID, partition: int = 0) -> int:
        request = produce_request(TOPIC, {partition: batch})
        request.transactional_id = transactional_id
        answer = await producer.client.ask(request, 11)
        found: int = answer.responses[0].partition_responses[0].error_code
        return found

    invalid = ErrorCode.INVALID_RECORD
    assert await code(forged_batch(mine, **begun, is_control=True)) == invalid
    assert await code(forged_batch((-1, -1), is_transactional=True, base_sequence=-1)) == invalid
    assert await code(forged_batch((mine[0], -1), **begun)) == invalid
    assert await code(forged_batch((mine[0] + 5, 0), **begun)) == MAPPING
    assert await code(forged_batch((mine[0], 9), **begun)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await code(forged_batch(mine, **begun), "another") == MAPPING
    assert await code(forged_batch(mine, **begun), partition=1) == ErrorCode.TRANSACTION_ABORTABLE
    unauthorized = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await code(forged_batch(mine, **begun), None) == unauthorized
    assert broker.node.replicas.partitions[TOPIC, 0].log.log_end_offset == 0
    assert await producer.write(b"in") == 0


@on_broker(SETTINGS, both=False)
async def test_one_request_asks_the_coordinator_once_for_each_partition(
    broker: RunningBroker,
) -> None:
    """Else a small request would have it asked any number of times."""
    producer = await producer_of(broker)
    await producer.add(0, 1)
    mine = producer.identity
    begun: dict[str, Any] = {"base_sequence": 0, "is_transactional": True}

    async def codes(*batches: tuple[int, bytearray]) -> set[int]:
        request = produce_request(TOPIC, {})
        request.transactional_id = ID
        request.topic_data[0].partition_data = [
            PartitionProduceData(index=index, records=batch) for index, batch in batches
        ]
        answer = await producer.client.ask(request, 11)
        return {each.error_code for each in answer.responses[0].partition_responses}

    first, second = forged_batch(mine, **begun), forged_batch((mine[0], mine[1] + 1), **begun)
    assert await codes((0, first), (0, first)) == {ErrorCode.INVALID_REQUEST}
    assert await codes((0, first), (1, second)) == {MAPPING}
    assert broker.node.replicas.partitions[TOPIC, 0].log.log_end_offset == 0
    assert await codes((0, first), (1, first)) == {0}


# Sizes.


@on_broker(SETTINGS, both=False)
async def test_ids_as_long_as_a_record_holds(broker: RunningBroker) -> None:
    longest = await producer_of(broker, "i" * 32_767)
    await longest.begin(0)
    assert await longest.end() == 0
    with pytest.raises(HungUp):  # no request may have such a string
        await Producer(await broker.client(), "i" * 32_768).init()
    assert await longest.init() == 0


@on_broker({**SETTINGS, "message.max.bytes": "700"}, both=False)
async def test_more_partitions_than_a_record_holds(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    names = [letter * 200 for letter in "abc"]
    for name in names:
        await producer.client.create_topic(name)
    assert await producer.add(0, topic=names[0]) == [0]
    assert await producer.add(0, topic=names[1]) == [0]
    assert await producer.add(0, topic=names[2]) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert len((await described(producer.client)).topics) == 2
    assert await producer.end() == 0
    assert await state_of(producer.client) == "CompleteCommit"


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_a_list_of_partitions_that_do_not_exist(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    codes = await producer.add(*range(20_000), -1)
    not_tried, unknown = ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [not_tried] * 2 + [unknown] * 19_999
    assert await producer.add(0, 0, 0, 1) == [0] * 4
    assert (await described(producer.client)).topics[0].partitions == [0, 1]


# Markers by hand.


async def codes(peer: Client, request: WriteTxnMarkersRequest) -> list[int]:
    answer = await peer.ask(request, 1)
    return [
        partition.error_code
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    ]


@on_broker(SETTINGS, both=False)
async def test_markers_by_hand(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    peer = await broker.peer()
    producer_id, epoch = producer.identity
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await codes(peer, write_markers(producer.identity, "none", 0)) == [unknown]
    assert await codes(peer, write_markers(producer.identity, TOPIC, 7, -1)) == [unknown] * 2
    negative = write_markers((producer_id, epoch - 1), TOPIC, 0, commits=False)
    assert await codes(peer, negative) == [ErrorCode.INVALID_REQUEST]
    assert await committed(peer) == ([], [])
    abort = write_markers(producer.identity, TOPIC, 0, commits=False, coordinator_epoch=0)
    assert await codes(peer, abort) == [0]
    assert await committed(peer) == ([b"in 0"], [producer_id])
    assert await codes(peer, abort) == [0]  # again ends nothing
    assert await producer.end(commits=False) == 0
    assert await state_of(peer) == "CompleteAbort"
    both = write_markers(producer.identity, TOPIC, 0)
    both.markers += write_markers((producer_id + 9, 0), TOPIC, 1).markers
    assert await codes(peer, both) == [0, 0]
    assert await codes(peer, WriteTxnMarkersRequest(markers=[])) == []


@on_broker(SETTINGS, both=False)
async def test_a_marker_in_the_name_of_a_later_coordinator(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of the transaction is refused then, and stays to be carried out: as in Kafka."""
    producer = await producer_of(broker)
    await producer.begin(0, 1)
    peer = await broker.peer()
    forged = write_markers(producer.identity, TOPIC, 0, commits=False, coordinator_epoch=5)
    assert await codes(peer, forged) == [0]
    with caplog.at_level(logging.WARNING):
        assert await producer.end() == 0
    assert "reason=TRANSACTION_COORDINATOR_FENCED" in caplog.text
    assert await state_of(peer) == "PrepareCommit"
    assert (await described(peer)).topics[0].partitions == [0]
    assert await committed(peer, 1) == ([b"in 1"], [])


@on_broker(SETTINGS, both=False)
async def test_markers_of_nobody(broker: RunningBroker) -> None:
    """Whatever they are, the log can be read afterwards."""
    producer = await producer_of(broker)
    await producer.begin(0)
    peer = await broker.peer()
    for identity in ((INT64_MAX, 0), (7, LAST_EPOCH), (7, 0)):
        for coordinator_epoch in (-1, (1 << 31) - 1):
            request = write_markers(identity, TOPIC, 0, 1, coordinator_epoch=coordinator_epoch)
            await codes(peer, request)
    request = write_markers(producer.identity, STATE_TOPIC, 0)
    assert await codes(peer, request) == [0]
    assert await producer.end() == 0
    values, aborted = await committed(peer)
    assert (values, aborted) == ([b"in 0"], [])


# A damaged log.


@on_broker(SETTINGS, both=False)
async def test_records_that_say_nothing_are_skipped(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    partition = broker.node.replicas.partitions[STATE_TOPIC, 0]
    shard = broker.node.transactions.shard_of(ID)
    key, value = encode_record(shard.describe(ID).known.record("other"))
    assert value is not None
    damaged: list[tuple[bytes | None, bytes | None]] = [
        (None, value),
        (b"", value),
        (b"\0", value),
        (key[:-1], value),
        (key + b"x", value),
        (b"\0\7" + key[2:], value),
        (key, b""),
        (key, b"\0\7" + value[2:]),
        (key, value[:-1]),
        (key, value[:-9]),
        (key, value[:2] + b"\xff" * 8 + value[10:]),
        (key, value[:2] + value[2:10] + b"\xff\xff" + value[12:]),
        (key, value[:16] + b"\6" + value[17:]),
        (key, value[:16] + b"\xff" + value[17:]),
        (key, value[:17] + b"\x7f\xff\xff\xff" + value[21:]),
    ]
    for each in damaged:
        batch = memoryview(build_batch([Record(0, broker.clock.wall_ms(), *each)]))
        partition.append(batch, read_header(batch), wall_ms=broker.clock.wall_ms())
    transactions = broker.node.transactions
    transactions.resign_partitions([0])
    transactions.lead(partition)
    await until(lambda: not transactions.is_loading)
    assert [*transactions.shard_of(ID).ids] == [ID]
    assert await producer.end() == 0
    assert await state_of(producer.client) == "CompleteCommit"


@on_broker(SETTINGS, both=False)
async def test_a_loaded_transaction_of_partitions_that_never_were(broker: RunningBroker) -> None:
    """The record is sound, and what it names does not exist."""
    producer = await producer_of(broker)
    partition = broker.node.replicas.partitions[STATE_TOPIC, 0]
    known = broker.node.transactions.shard_of(ID).describe(ID).known
    prepared = known._replace(
        state=type(known.state).PREPARE_COMMIT,
        partitions=frozenset({("never", 0), (TOPIC, -1), (TOPIC, 1 << 30), ("", 0)}),
        start_ms=-5,
        timeout_ms=-1,
        update_ms=INT64_MAX,
    )
    record: TransactionRecord = prepared.record(ID)
    batch = memoryview(build_batch([Record(0, 1, *encode_record(record))]))
    partition.append(batch, read_header(batch), wall_ms=1)
    transactions = broker.node.transactions
    transactions.resign_partitions([0])
    transactions.lead(partition)
    await until(lambda: not transactions.is_loading)
    await until(lambda: transactions.shard_of(ID).describe(ID).pending is None)
    assert await state_of(producer.client) == "CompleteCommit"
    await producer.begin(0)
    assert await producer.end() == 0
