"""Produce with batches that take long to check: a thread does it, and others are served."""

import asyncio
from typing import Final

import pytest

from odradek.broker.core.incoming_batch import (
    CHECKED_AT_ONCE_BYTES_MAX,
    CHECKED_AT_ONCE_RECORDS_MAX,
)
from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.records import Codec
from tests.broker.batches import altered
from tests.broker.requests import metadata
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.messages import batch_of, produce_request

from .test_waiting_produce import HeldThreads, log_end, numbered, result, send

MANY: Final = [b""] * (CHECKED_AT_ONCE_RECORDS_MAX + 1)
LARGE: Final = bytes(CHECKED_AT_ONCE_BYTES_MAX)
HEAVY: Final = {
    "many records": batch_of(*MANY),
    "gzip": batch_of(LARGE, codec=Codec.GZIP),
    "snappy": batch_of(LARGE, codec=Codec.SNAPPY),
    "lz4": batch_of(LARGE, codec=Codec.LZ4),
    "zstd": batch_of(LARGE, codec=Codec.ZSTD),
}


@pytest.mark.parametrize("batch", HEAVY.values(), ids=HEAVY)
@on_broker(both=False)
async def test_others_are_served_while_a_thread_checks(
    broker: RunningBroker, batch: bytearray
) -> None:
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t")
    threads = HeldThreads(broker)
    sent = send(client, batch)
    await until(lambda: threads.begun == 1)
    assert await other.append("t", batch_of(b"other")) == 0
    assert broker.connections.budget.keeps
    threads.go_on.set()
    assert (await result(client, sent)).base_offset == 1
    await until(lambda: not broker.connections.budget.keeps)


@pytest.mark.slow
@on_broker(both=False)
async def test_what_is_quick_needs_no_thread(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"max.message.bytes": str(2 * len(LARGE))})
    threads = HeldThreads(broker)
    await client.append("t", batch_of(*MANY[1:]))
    await client.append("t", batch_of(LARGE))
    await client.append("t", batch_of(LARGE[:-1000], codec=Codec.ZSTD))
    assert threads.begun == 0


@pytest.mark.slow
@on_broker(both=False)
async def test_nothing_overtakes_a_batch_that_is_checked(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    sent = [send(client, numbered(0, *MANY)), send(client, numbered(len(MANY), b"next"))]
    offsets = [(await result(client, each)).base_offset for each in sent]
    assert offsets == [0, len(MANY)]


@on_broker({"odradek.decompressed.batch.bytes.max": str(2 * len(LARGE))}, both=False)
async def test_what_a_thread_refuses_is_refused(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    refused = {
        ErrorCode.INVALID_RECORD: altered(HEAVY["many records"], record_count=len(MANY) + 1),
        ErrorCode.CORRUPT_MESSAGE: altered(HEAVY["many records"], crc=1),
        ErrorCode.MESSAGE_TOO_LARGE: batch_of(LARGE * 3, codec=Codec.ZSTD),
    }
    for code, batch in refused.items():
        answer = await client.produce("t", batch)
        assert answer.error_code == code, answer
    assert log_end(broker) == 0


@on_broker(both=False)
async def test_nothing_of_what_a_thread_refuses_is_left_to_the_collector(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    async with nothing_left(Refused, MalformedMessage):
        answer = await client.produce("t", altered(HEAVY["many records"], crc=1))
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


@on_broker({"compression.type": "lz4"}, both=False)
async def test_a_heavy_batch_in_a_topic_with_a_codec(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    threads = HeldThreads(broker)
    sent = send(client, HEAVY["gzip"])
    threads.go_on.set()
    assert (await result(client, sent)).error_code == 0
    assert threads.begun == 2, "checked, then compressed"


@pytest.mark.slow
@on_broker(both=False)
async def test_bombs_do_not_hold_up_others(broker: RunningBroker) -> None:
    """Sixty megabytes each, out of sixty kilobytes and less."""
    client, other = await broker.client(), await broker.client()
    await client.create_topic("t", 4)
    bomb = bytes(60 << 20)
    codecs = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    bombs = {
        number: batch
        for number, batch in enumerate(batch_of(bomb, codec=c) for c in codecs)
        if len(batch) < 1_000_000
    }
    sent = client.send(produce_request("t", bombs), 11)
    reading = asyncio.ensure_future(client.read(ProduceResponse, 11, sent))
    served = await served_until(reading, other)
    assert served > 3
    answers = (await reading).responses[0].partition_responses
    assert [each.error_code for each in answers] == [0] * len(bombs)


async def served_until(done: "asyncio.Future[ProduceResponse]", client: Client) -> int:
    """How many requests are answered meanwhile."""
    count = 0
    while not done.done():
        await client.ask(metadata(), 12)
        count += 1
    return count
