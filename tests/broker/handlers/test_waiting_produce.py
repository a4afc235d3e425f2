"""Produce to topics that have a codec: what is stored, and in which order."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple

import pytest

from odradek.broker.core.incoming_batch import QUICK_BYTES_MAX
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import PartitionProduceResponse, ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.records import Codec, iter_batches
from tests.broker.requests import metadata
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, fetch_request, produce_request, records_in

LARGE = b"a large value " * (QUICK_BYTES_MAX // 10)
NOISE = os.urandom(QUICK_BYTES_MAX + 1)
GZIP = {"compression.type": "gzip"}

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class HeldThreads:
    """Threads that finish nothing before they are told to."""

    def __init__(self, broker: RunningBroker) -> None:
        runtime = broker.node.runtime
        assert runtime.compress_offload is not None
        self._run = runtime.compress_offload
        self.begun = 0
        self.go_on = asyncio.Event()
        runtime.compress_offload = self

    def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]:
        self.begun += 1
        return self._later(function, *args)

    async def _later(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        await self.go_on.wait()
        return await self._run(function, *args)


def numbered(sequence: int, *values: bytes, **more: Any) -> bytearray:
    """A batch of an idempotent producer."""
    return batch_of(*values, producer_id=7, producer_epoch=0, base_sequence=sequence, **more)


def send(client: Client, batch: bytes | bytearray, *, acks: int = -1, topic: str = "t") -> int:
    return client.send(produce_request(topic, {0: batch}, acks=acks), 11)


async def result(client: Client, correlation_id: int) -> PartitionProduceResponse:
    answer = await client.read(ProduceResponse, 11, correlation_id)
    return answer.responses[0].partition_responses[0]


async def stored(client: Client, topic: str = "t") -> list[tuple[int, bytes]]:
    """Codec and values of each batch."""
    request = fetch_request(topic, max_bytes=1 << 26, partition_max_bytes=1 << 26)
    answer: FetchResponse = await client.ask(request, 12)
    data = memoryview(answer.responses[0].partitions[0].records or b"")  # type: ignore[arg-type]
    found = []
    for position, header in iter_batches(data):
        values = [v for _, v in records_in(data[position : position + header.size_bytes])]
        found.append((header.codec, b"".join(values)))
    return found


def log_end(broker: RunningBroker, topic: str = "t") -> int:
    return broker.node.replicas.partitions[topic, 0].log.log_end_offset


@pytest.mark.slow
@on_broker(both=False)
async def test_batches_are_stored_in_the_topic_s_codec(broker: RunningBroker) -> None:
    client = await broker.client()
    for name, codec in (("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)):
        await client.create_topic(name, configs={"compression.type": name})
        for source in Codec:
            for value in (b"small", LARGE):
                await client.append(name, batch_of(value, codec=source))
        assert await stored(client, name) == [(codec, b"small"), (codec, LARGE)] * len(Codec)


@on_broker(both=False)
async def test_the_codec_changes_while_the_broker_runs(broker: RunningBroker) -> None:
    async def set_codec(kind: int, name: str, value: str) -> None:
        config = AlterableConfig(name="compression.type", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        assert (await client.ask(request, 1)).responses[0].error_code == 0

    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    await set_codec(4, "", "lz4")
    await client.append("t", batch_of(b"b"))
    await set_codec(2, "t", "zstd")
    await client.append("t", batch_of(b"c"))
    await set_codec(2, "t", "producer")
    await client.append("t", batch_of(b"d", codec=Codec.SNAPPY))
    codecs = [codec for codec, _ in await stored(client)]
    assert codecs == [Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY]


@on_broker(both=False)
async def test_a_level_has_its_effect(broker: RunningBroker) -> None:
    client = await broker.client()
    value = b"".join(str(number * number).encode() for number in range(9_000))
    sizes_bytes = []
    for level in ("-50", "-5", "3"):
        await client.create_topic(
            level, configs={"compression.type": "zstd", "compression.zstd.level": level}
        )
        await client.append(level, batch_of(value))
        sizes_bytes.append(broker.node.replicas.partitions[level, 0].log.size_bytes)
    assert sizes_bytes == sorted(set(sizes_bytes), reverse=True)


@on_broker(dict(GZIP))
async def test_large_and_small_batches_of_a_connection_keep_their_order(
    broker: RunningBroker,
) -> None:
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t")
    values = [b"%d " % n + (LARGE if n % 3 == 0 else b"") for n in range(30)]
    sent = [send(client, numbered(n, value)) for n, value in enumerate(values)]
    beside = [send(other, batch_of(b"other"), acks=1) for _ in range(10)]
    offsets = [(await result(client, each)).base_offset for each in sent]
    assert offsets == sorted(set(offsets))
    for each in beside:
        assert (await result(other, each)).error_code == 0
    found = await stored(client)
    assert [value for _, value in found if value != b"other"] == values
    assert {codec for codec, _ in found} == {Codec.GZIP}


@on_broker(dict(GZIP))
async def test_nothing_overtakes_a_batch_that_is_compressed(broker: RunningBroker) -> None:
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t")
    threads = HeldThreads(broker)
    sent = [send(client, batch_of(value)) for value in (b"before", LARGE, b"after")]
    assert (await result(client, sent[0])).base_offset == 0
    await until(lambda: threads.begun)
    assert broker.connections.budget.keeps
    await other.ask(metadata(), 12)
    assert await other.append("t", batch_of(b"other")) == 1
    threads.go_on.set()
    assert [(await result(client, each)).base_offset for each in sent[1:]] == [2, 3]
    assert [value for _, value in await stored(other)] == [b"before", b"other", LARGE, b"after"]


@on_broker(dict(GZIP), both=False)
async def test_a_duplicate_is_known_by_its_sequence(broker: RunningBroker) -> None:
    client, again = await broker.client(), await broker.client()
    await client.create_topic("t")
    threads = HeldThreads(broker)
    sent = send(client, numbered(0, LARGE)), send(client, numbered(1, b"next"))
    await until(lambda: threads.begun == 1)
    resent = send(again, numbered(0, LARGE))
    await until(lambda: threads.begun == 2)
    threads.go_on.set()
    assert [(await result(client, each)).base_offset for each in sent] == [0, 1]
    assert (await result(again, resent)).base_offset == 0
    assert len(await stored(client)) == 2


@on_broker(dict(GZIP))
async def test_what_was_sent_without_acks_is_appended_though_the_client_has_gone(
    broker: RunningBroker,
) -> None:
    client, other = await broker.client(), await broker.client()
    await other.create_topic("t")
    threads = HeldThreads(broker)
    batch = batch_of(LARGE)
    send(client, batch, acks=0)
    await until(lambda: threads.begun)
    await client.close()
    await until(lambda: len(broker.connections) == 1)
    # Else clients that hang up could fill the memory.
    assert broker.connections.budget._kept_bytes == len(batch)
    threads.go_on.set()
    await until(lambda: log_end(broker) == 1)
    assert not broker.connections.budget.keeps


@on_broker(dict(GZIP), both=False)
async def test_without_acks_nothing_is_answered_unless_it_fails(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.create_topic("small", configs={"max.message.bytes": str(len(NOISE) + 100)})
    send(client, batch_of(LARGE), acks=0)
    await client.ask(metadata(), 12)
    assert log_end(broker) == 1
    send(client, batch_of(NOISE), acks=0, topic="small")
    assert await client.is_closed()
    assert "Produce with acks=0 failed: MESSAGE_TOO_LARGE" in caplog.text


@on_broker(dict(GZIP), both=False)
async def test_every_partition_gets_its_own_result(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 4)
    values = {0: LARGE, 1: b"small", 2: b"", 3: LARGE, 9: b"nowhere"}
    batches: dict[int, bytes | bytearray | None] = {
        index: batch_of(value) if value else None for index, value in values.items()
    }
    answer: ProduceResponse = await client.ask(produce_request("t", batches), 11)
    results = answer.responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in results] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, ErrorCode.INVALID_RECORD, -1),
        (3, 0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


@on_broker(both=False)
async def test_what_is_too_large_afterwards_is_refused(broker: RunningBroker) -> None:
    client = await broker.client()
    limits = {
        "max.message.bytes": ErrorCode.MESSAGE_TOO_LARGE,
        "segment.bytes": ErrorCode.RECORD_LIST_TOO_LARGE,
    }
    for limit, code in limits.items():
        for value in (bytes(1000), os.urandom(1000), NOISE):
            kind = "gzip" if any(value) else "uncompressed"
            topic = f"{limit}-{kind}-{len(value)}"
            batch = batch_of(value, codec=Codec.NONE if any(value) else Codec.GZIP)
            at_most = len(batch)
            configs = {"compression.type": kind, limit: str(at_most)}
            await client.create_topic(topic, configs=configs)
            answer = await client.produce(topic, batch)
            assert answer.error_code == code, topic
            assert log_end(broker, topic) == 0
    await client.create_topic("t", configs={**GZIP, "segment.bytes": "1000"})
    await client.append("t", batch_of(bytes(5000)))


@on_broker(dict(GZIP), both=False)
async def test_partitions_may_change_hands_meanwhile(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    threads = HeldThreads(broker)
    request = produce_request("t", {0: batch_of(LARGE), 1: batch_of(LARGE)})
    sent = client.send(request, 11)
    await until(lambda: threads.begun == 2)
    partition = broker.node.replicas.partitions["t", 0]
    partition.become(partition.state._replace(leader=9, leader_epoch=3, isr=(9,)), 0)
    broker.node.metadata.update_partitions([partition.state])
    gone = broker.node.replicas.partitions.pop(("t", 1))
    threads.go_on.set()
    answer = await client.read(ProduceResponse, 11, sent)
    broker.node.replicas.partitions["t", 1] = gone
    moved, absent = answer.responses[0].partition_responses
    assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (9, 3)
    assert (absent.index, absent.base_offset) == (1, -1)
    assert absent.error_code != 0
    assert partition.log.log_end_offset == gone.log.log_end_offset == 0


@on_broker(dict(GZIP), both=False)
async def test_no_batch_overtakes_one_that_waited_and_was_refused(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    threads = HeldThreads(broker)
    sent = send(client, numbered(0, LARGE))
    await until(lambda: threads.begun)
    partition = broker.node.replicas.partitions["t", 0]
    led = partition.state
    partition.become(led._replace(leader=9, leader_epoch=3, isr=(9,)), 0)
    threads.go_on.set()
    assert (await result(client, sent)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.become(led._replace(leader_epoch=4), 0)
    sent_again = [send(client, numbered(n, v)) for n, v in ((1, b"b"), (0, LARGE), (1, b"b"))]
    codes = [(await result(client, each)).error_code for each in sent_again]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NONE]
    assert [value for _, value in await stored(client)] == [LARGE, b"b"]


@on_broker(dict(GZIP), both=False)
async def test_a_stop_waits_for_no_thread(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    threads = HeldThreads(broker)
    send(client, batch_of(LARGE))
    await until(lambda: threads.begun)  # the rest is what `on_broker` looks at
