"""Produce over the wire.  What a batch may be is in tests/broker/core/test_incoming_batch.py."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceRequest, ProduceResponse
from odradek.protocol.records import Codec, Record, build_batch, read_header
from tests.broker.batches import altered
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client
from tests.support.messages import batch_of, fetch_request, produce_request, records_in

WALL_MS = 1_700_000_000_000


def idempotent(*values: bytes, sequence: int, epoch: int = 0, producer_id: int = 7) -> bytearray:
    return batch_of(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def codes(answer: ProduceResponse) -> dict[int, int]:
    """The error code of each partition."""
    return {r.index: r.error_code for t in answer.responses for r in t.partition_responses}


async def values_of(client: Client, partition: int = 0) -> list[bytes]:
    """All values of a partition."""
    return [
        value for _, value in records_in((await client.fetch("t", partition=partition)).records)
    ]


@on_broker(both=False)
async def test_offsets(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    first = await client.produce("t", batch_of(b"a", b"b"), acks=1)
    second = await client.produce("t", batch_of(b"c"), acks=-1)
    assert (first.base_offset, second.base_offset) == (0, 2)
    assert (second.log_append_time_ms, second.log_start_offset) == (-1, 0)
    assert await values_of(client) == [b"a", b"b", b"c"]


@on_broker(both=False)
async def test_the_brokers_own_topics_are_not_for_clients(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("__consumer_offsets")
    refused = await client.produce("__consumer_offsets", batch_of(b"a"), acks=1)
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@on_broker(both=False)
async def test_one_bad_partition_does_not_spoil_the_others(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 4)
    batches = {
        0: batch_of(b"a"),
        1: altered(batch_of(b"a"), crc=1),
        2: batch_of(b"b") + batch_of(b"c"),
        3: batch_of(b"d", codec=Codec.GZIP),
        4: batch_of(b"e"),
        -1: batch_of(b"e"),
    }
    answer = await client.ask(produce_request("t", batches), 11)
    assert codes(answer) == {
        0: ErrorCode.NONE,
        1: ErrorCode.CORRUPT_MESSAGE,
        2: ErrorCode.INVALID_RECORD,
        3: ErrorCode.NONE,
        4: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    offsets = [r.base_offset for r in answer.responses[0].partition_responses]
    assert offsets == [0, -1, -1, 0, -1, -1]
    assert await values_of(client, 0) == [b"a"]
    assert await values_of(client, 3) == [b"d"]


@on_broker(both=False)
async def test_the_records_at_fault_are_named(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"cleanup.policy": "compact"})
    records = [Record(n, 0, b"key" if n == 1 else None, b"value") for n in range(3)]
    result = await client.produce("t", build_batch(records))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [0, 2]
    assert result.error_message
    assert (await client.produce("t", build_batch(records[1:2], base_offset=0))).error_code != 0
    keyed = build_batch([Record(0, 0, b"key", None)])
    assert (await client.produce("t", keyed)).error_code == 0


@pytest.mark.parametrize("acks", [2, -2, 100])
@on_broker(both=False)
async def test_acks_that_mean_nothing(broker: RunningBroker, acks: int) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for version in (3, 11):
        answer = await client.ask(produce_request("t", {0: batch_of(b"a")}, acks=acks), version)
        assert codes(answer) == {0: ErrorCode.INVALID_REQUIRED_ACKS}
    assert await values_of(client) == []


@on_broker(both=False)
async def test_old_versions_are_read_and_refused(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for version in (0, 1, 2):
        answer = await client.ask(produce_request("t", {0: b"an old message set"}), version)
        assert codes(answer) == {0: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
    assert await values_of(client) == []


@on_broker(both=False)
async def test_nothing_to_append(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    answer = await client.ask(ProduceRequest(acks=1), 11)
    assert answer.responses == []
    answer = await client.ask(produce_request("t", {}), 11)
    assert codes(answer) == {}
    answer = await client.ask(produce_request("t", {0: None}), 11)
    assert codes(answer) == {0: ErrorCode.INVALID_RECORD}


@on_broker(both=False)
async def test_append_times(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = broker.clock.wall_ms()
    result = await client.produce("t", batch_of(b"a", timestamp=5))
    assert before_ms <= result.log_append_time_ms <= broker.clock.wall_ms()
    data = await client.fetch("t")
    header = read_header(memoryview(data.records))  # type: ignore[arg-type]
    assert header.is_log_append_time
    assert header.max_timestamp == result.log_append_time_ms


@on_broker({"message.max.bytes": "1000"}, both=False)
async def test_too_large(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.create_topic("larger", configs={"max.message.bytes": "2000"})
    large = batch_of(b"a" * 1500)
    assert (await client.produce("t", large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await client.produce("larger", large)).error_code == 0


@on_broker(both=False)
async def test_an_idempotent_producer(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"other"))
    sent = [
        (idempotent(b"a", b"b", sequence=0), 0, 1),
        (idempotent(b"c", sequence=2), 0, 3),
        (idempotent(b"a", b"b", sequence=0), 0, 1),  # again: the same offset, not appended
        (idempotent(b"c", sequence=2), 0, 3),
        (idempotent(b"e", sequence=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (idempotent(b"x", sequence=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (idempotent(b"d", sequence=3), 0, 4),
        (idempotent(b"e", sequence=0, epoch=1), 0, 5),
        (idempotent(b"f", sequence=4), ErrorCode.INVALID_PRODUCER_EPOCH, -1),
        (idempotent(b"f", sequence=5, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (idempotent(b"f", sequence=9, producer_id=8), 0, 6),  # unknown: its state may be lost
    ]
    for batch, code, offset in sent:
        result = await client.produce("t", batch)
        assert (result.error_code, result.base_offset) == (code, offset), sent.index(
            (batch, code, offset)
        )
    assert await values_of(client) == [b"other", b"a", b"b", b"c", b"d", b"e", b"f"]


@on_broker(both=False)
async def test_no_batch_overtakes_one_that_was_refused(broker: RunningBroker) -> None:
    """The partition does not know the producer yet, and would take any sequence."""
    client, other = await broker.client(), await broker.client()

    async def produce(sequence: int, *values: bytes) -> int:
        result = await client.produce("t", idempotent(*values, sequence=sequence))
        return result.error_code

    assert await produce(0, b"a", b"b") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await other.create_topic("t")
    assert await produce(2, b"c") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await produce(0, b"a", b"b") == ErrorCode.NONE
    assert await produce(2, b"c") == ErrorCode.NONE
    assert await values_of(client) == [b"a", b"b", b"c"]


@on_broker(both=False)
async def test_a_producer_that_is_known_needs_no_other_order_than_its_sequences(
    broker: RunningBroker,
) -> None:
    """What this broker refused may have gone to another leader."""
    client, other = await broker.client(), await broker.client()
    first, second = idempotent(b"a", sequence=0), idempotent(b"b", sequence=1)
    refused = await client.produce("t", first)
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await other.create_topic("t")
    assert [
        (await each.produce("t", batch)).error_code
        for each, batch in ((other, first), (client, second))
    ] == [ErrorCode.NONE, ErrorCode.NONE]


@on_broker(both=False)
async def test_a_gap_behind_a_refused_batch_is_not_out_of_order(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    partition = broker.node.replicas.partitions["t", 0]

    async def produce(sequence: int) -> int:
        result = await client.produce("t", idempotent(b"%d" % sequence, sequence=sequence))
        return result.error_code

    def lead(*, leader: int) -> None:
        epoch = partition.state.leader_epoch + 1
        partition.become(partition.state._replace(leader=leader, leader_epoch=epoch), 0)

    assert await produce(0) == ErrorCode.NONE
    lead(leader=9)
    assert await produce(1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead(leader=broker.node.broker_id)
    assert [await produce(sequence) for sequence in (2, 1, 2, 4)] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]


@on_broker(both=False)
async def test_a_duplicate_in_one_request_with_others(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    await client.append("t", idempotent(b"a", sequence=0), partition=0)
    request = produce_request(
        "t", {0: idempotent(b"a", sequence=0), 1: idempotent(b"a", sequence=0)}
    )
    answer = await client.ask(request, 11)
    results = answer.responses[0].partition_responses
    assert [(r.error_code, r.base_offset) for r in results] == [(0, 0), (0, 0)]
    assert await values_of(client, 0) == [b"a"]


@on_broker(both=False)
async def test_who_is_no_leader_says_who_is(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t")
    partition = broker.node.replicas.partitions["t", 0]
    partition.become(partition.state._replace(leader=9, leader_epoch=3, isr=(9,)), 0)
    broker.node.metadata.update_partitions([partition.state])
    result = await client.produce("t", batch_of(b"a"))
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (9, 3)
    answer = await client.ask(fetch_request(topic.topic_id, leader_epoch=2), 16)
    data = answer.responses[0].partitions[0]
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (9, 3)
