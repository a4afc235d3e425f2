"""Quotas of a broker that runs: the answers of throttled clients, and what is exempt."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.broker.net.dispatcher import Mute
from odradek.broker.runtime import Clock
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.schema import Message
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.frames import request_bytes
from tests.support.messages import batch_of, creatable, fetch_request, produce_request

from .requests import create_partitions, delete_topics, metadata
from .running import RunningBroker, on_broker, running

CLIENT = {"client-id": "test"}
BATCH = batch_of(bytes(20_000))
BATCH_BYTES = len(BATCH)


class Standing(Clock):
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms


def stop_clock(broker: RunningBroker) -> Standing:
    """Have the quotas measured by a clock that stands."""
    broker.node.quotas.clock = clock = Standing()
    return clock


async def set_quotas(
    broker: RunningBroker, entity: Mapping[str, str | None], **quotas: float | None
) -> None:
    """Set quotas, by a connection that has none itself."""
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )
    async with await Client.connect(broker.port) as admin:
        request = AlterClientQuotasRequest(entries=[entry])
        answer = await admin.ask(request, 1, client_id="admin")
        assert answer.entries[0].error_code == 0, answer.entries[0].error_message


async def ask_anew(broker: RunningBroker, request: Message, version: int) -> Any:
    """Ask by a new connection, as this one may be muted afterwards."""
    async with await Client.connect(broker.port) as client:
        return await client.ask(request, version)


async def produce(broker: RunningBroker) -> ProduceResponse:
    answer = await ask_anew(broker, produce_request("t", {0: BATCH}), 11)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert isinstance(answer, ProduceResponse)
    return answer


async def fetch(broker: RunningBroker, **more: Any) -> FetchResponse:
    request = fetch_request("t", max_bytes=1 << 30, partition_max_bytes=1 << 30, **more)
    answer = await ask_anew(broker, request, 12)
    assert isinstance(answer, FetchResponse)
    return answer


@on_broker()
async def test_a_producer_is_throttled_and_muted(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await set_quotas(broker, CLIENT, producer_byte_rate=3000.0)
    clock, size = stop_clock(broker), request_size()
    assert (await produce(broker)).throttle_time_ms == 0, "30,000 bytes may be saved up"
    answer = await client.ask(produce_request("t", {0: BATCH}), 11)
    assert answer.throttle_time_ms == round((2 * size - 30_000) / 3)
    next_one = asyncio.ensure_future(client.ask(metadata(), 12))
    await until(lambda: any(not each.is_reading for each in mutes(broker)), "it waits")
    assert not next_one.done()
    clock.ms += 5000  # half of the samples: the rate is still that of ten seconds
    throttle_ms = (await produce(broker)).throttle_time_ms
    assert throttle_ms == round((3 * size - 30_000) / 3), "other connections share the quota"
    await set_quotas(broker, CLIENT, producer_byte_rate=None)
    assert (await produce(broker)).throttle_time_ms == 0
    assert not next_one.done(), "a client that was told to wait waits"
    unmute(broker)
    assert len((await next_one).brokers) == 1


def request_size() -> int:
    return len(request_bytes(produce_request("t", {0: BATCH}), 11, 1, client_id="test"))


def mutes(broker: RunningBroker) -> dict[Any, Mute]:
    """The muted connections."""
    return {
        connection: connection.dispatcher.parked[-1]
        for connection in broker.connections._open
        if connection.dispatcher.parked and isinstance(connection.dispatcher.parked[-1], Mute)
    }


def unmute(broker: RunningBroker) -> None:
    """As if the time of all were over."""
    for mute in mutes(broker).values():
        mute._end()


@on_broker()
async def test_a_consumer_gets_nothing_while_it_is_throttled(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for _ in range(4):
        await client.append("t", BATCH)
    await set_quotas(broker, CLIENT, consumer_byte_rate=5000.0)
    clock = stop_clock(broker)
    first = await fetch(broker)
    assert first.throttle_time_ms == 0
    assert size_of(first) == 2 * BATCH_BYTES, "no more than could ever be sent"
    throttled = await fetch(broker)
    assert throttled.throttle_time_ms > 0
    assert throttled.responses == []
    again = await fetch(broker)
    assert again.throttle_time_ms == throttled.throttle_time_ms, "what was not sent does not count"
    clock.ms += 11_000
    assert size_of(await fetch(broker)) == 2 * BATCH_BYTES
    counts = broker.node.metrics.requests["Fetch"]
    assert counts.throttled_ms == 2 * throttled.throttle_time_ms


def size_of(answer: FetchResponse) -> int:
    return sum(len(p.records or b"") for t in answer.responses for p in t.partitions)


@on_broker(both=False)
async def test_a_session_survives_a_throttled_answer(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", BATCH)
    await set_quotas(broker, CLIENT, consumer_byte_rate=2100.0)
    clock = stop_clock(broker)
    opened = await fetch(broker, session_epoch=0)
    assert opened.session_id
    clock.ms += 1000
    session = {"session_id": opened.session_id}
    throttled = await fetch(broker, session_epoch=1, **session)
    assert throttled.throttle_time_ms > 0
    assert (throttled.error_code, throttled.session_id) == (0, opened.session_id)
    clock.ms += 20_000
    assert size_of(await fetch(broker, session_epoch=2, **session)) == BATCH_BYTES
    new = await fetch(broker, session_epoch=0)
    assert new.throttle_time_ms > 0
    assert new.session_id == 0, "a session that is not opened"


@on_broker(both=False)
async def test_a_fetch_that_waits_is_throttled_when_it_is_answered(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await set_quotas(broker, CLIENT, consumer_byte_rate=1.0)
    stop_clock(broker)
    reader = await broker.client()
    waiting = asyncio.ensure_future(reader.ask(fetch_request("t", wait_ms=30_000), 12))
    await until(lambda: any(c.dispatcher.parked for c in broker.connections._open))
    writer = await broker.client()
    writer.send(produce_request("t", {0: BATCH}), 11, client_id="writer")
    answer = await waiting
    assert answer.throttle_time_ms > 0
    assert answer.responses == []


@on_broker(both=False)
async def test_the_time_of_the_loop(broker: RunningBroker) -> None:
    await set_quotas(broker, {"user": "ANONYMOUS"}, request_percentage=0.0)
    answer = await ask_anew(broker, metadata(), 12)
    assert answer.throttle_time_ms == 1000
    await set_quotas(broker, {"user": "ANONYMOUS"}, request_percentage=None)
    assert (await ask_anew(broker, metadata(), 12)).throttle_time_ms == 0


@on_broker(both=False)
async def test_changes_of_topics(broker: RunningBroker) -> None:
    await set_quotas(broker, CLIENT, controller_mutation_rate=1.0)
    clock = stop_clock(broker)

    async def create(name: str, version: int, partitions: int) -> tuple[int, int]:
        request = CreateTopicsRequest(topics=[creatable(name, partitions)], timeout_ms=30_000)
        answer = await ask_anew(broker, request, version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert await create("a", 6, 13) == (0, 0), "eleven are saved up, and the last may be a debt"
    assert await create("b", 6, 1) == (exceeded, 2000)
    assert await create("b", 5, 1) == (0, 3000), "older clients are only throttled"
    assert await create("bad name", 6, 1) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)
    clock.ms += 1000
    extended = await ask_anew(broker, create_partitions("b", 4), 3)
    assert (extended.results[0].error_code, extended.throttle_time_ms) == (exceeded, 2000)
    extended = await ask_anew(broker, create_partitions("b", 4), 2)
    assert (extended.results[0].error_code, extended.throttle_time_ms) == (0, 5000)
    deleted = await ask_anew(broker, delete_topics(5, "b"), 5)
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (exceeded, 5000)
    clock.ms += 5000
    deleted = await ask_anew(broker, delete_topics(5, "b"), 5)
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (0, 0)
    deleted = await ask_anew(broker, delete_topics(4, "a"), 4)
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (0, 17_000)


@on_broker(both=False)
async def test_followers_are_exempt(broker: RunningBroker) -> None:
    peer = await broker.peer()
    await peer.create_topic("t")
    await peer.append("t", BATCH)
    await set_quotas(broker, {"user": None}, consumer_byte_rate=1.0, request_percentage=0.0)
    request = fetch_request("t")
    request.replica_id = 7
    answer = await ask_anew(broker, request, 12)
    assert answer.throttle_time_ms == 0
    assert (await fetch(broker)).throttle_time_ms > 0


@on_broker(both=False)
async def test_brokers_are_exempt_and_who_only_claims_to_be_one_is_not(
    broker: RunningBroker,
) -> None:
    await set_quotas(broker, {"user": None}, request_percentage=0.0)
    peer = await broker.peer()
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=broker.node.local.broker_epoch)
    assert (await peer.ask(request, 0)).throttle_time_ms == 0
    assert not mutes(broker)
    broker.node.local.is_alone = True
    refused = await peer.ask(request, 0)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused.throttle_time_ms == 1000
    other = await broker.client()
    answer = await other.ask(LeaderAndIsrRequest(), 4)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(mutes(broker)) == 2, "also if the answer has no field for it"


@asynchronous
async def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await (await broker.client()).create_topic("t")
        await set_quotas(broker, CLIENT, producer_byte_rate=1.0)
        await set_quotas(broker, {"ip": None}, connection_creation_rate=9.0)
    async with running(tmp_path) as broker:
        assert broker.node.quotas.creation_rates._quotas == {None: 9.0}
        assert (await produce(broker)).throttle_time_ms > 0
