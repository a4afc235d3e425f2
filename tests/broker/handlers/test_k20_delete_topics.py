import asyncio
from pathlib import Path

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.broker.requests import delete_topics, metadata
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.connections import TIMEOUT_S
from tests.support.messages import batch_of, fetch_request

TIMEOUT_MS = TIMEOUT_S * 1000


async def delete(
    client: Client, *states: DeleteTopicState, version: int = 6
) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(topics=list(states), timeout_ms=TIMEOUT_MS)
    answer = await client.ask(request, version)
    assert isinstance(answer, DeleteTopicsResponse)
    return answer.responses


def directories(broker: RunningBroker) -> set[str]:
    return {path.name for path in Path(broker.data_dir).iterdir() if path.is_dir()}


@on_broker({"log.segment.delete.delay.ms": "0"})
async def test_a_topic_goes_with_all_it_had(broker: RunningBroker) -> None:
    client = await broker.client()
    for version in (0, 5, 6):
        await client.create_topic("t", 3)
        await client.append("t", batch_of(b"a"))
        answer = await client.ask(delete_topics(version, "t"), version)
        assert [(r.name, r.error_code) for r in answer.responses] == [("t", 0)]
        assert (await client.ask(metadata("t"), 12)).topics[0].error_code != 0
        assert await broker.session.exists("/brokers/topics/t") is None
        assert await broker.session.exists("/config/topics/t") is None
        assert await broker.session.children("/admin/delete_topics") == []
        await until(lambda: directories(broker) == set())


@on_broker(both=False)
async def test_by_id(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t")
    (result,) = await delete(client, DeleteTopicState(topic_id=topic.topic_id))
    assert (result.error_code, result.name, result.topic_id) == (0, "t", topic.topic_id)
    (result,) = await delete(client, DeleteTopicState(topic_id=topic.topic_id))
    assert (result.error_code, result.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


@on_broker(both=False)
async def test_refusals(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t")
    await client.create_topic("twice")
    results = await delete(
        client,
        DeleteTopicState(name="absent"),
        DeleteTopicState(name="t", topic_id=topic.topic_id),
        DeleteTopicState(),
        DeleteTopicState(name="twice"),
        DeleteTopicState(name="twice"),
    )
    assert [result.error_code for result in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert set(broker.node.metadata.topics) == {"t", "twice"}


@on_broker({"delete.topic.enable": "false"}, both=False)
async def test_deletion_may_be_disabled(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    codes = {2: ErrorCode.INVALID_REQUEST, 3: ErrorCode.TOPIC_DELETION_DISABLED}
    for version, code in codes.items():
        answer = await client.ask(delete_topics(version, "t"), version)
        assert answer.responses[0].error_code == code


@on_broker()
async def test_a_topic_of_the_same_name_begins_anew(broker: RunningBroker) -> None:
    client = await broker.client()
    seen: set[bytes] = set()
    for _ in range(5):
        topic = await client.create_topic("t", 2)
        assert topic.topic_id not in seen
        for old_id in seen:
            answer = await client.ask(fetch_request(old_id), 13)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        seen.add(topic.topic_id)
        data = await client.fetch("t")
        assert (data.high_watermark, data.log_start_offset) == (0, 0)
        assert await client.append("t", batch_of(b"a", b"b")) == 0
        await delete(client, DeleteTopicState(name="t"))


@on_broker(both=False)
async def test_many_clients_delete_one_topic(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(6)]
    await clients[0].create_topic("t")
    results = await asyncio.gather(
        *(delete(client, DeleteTopicState(name="t")) for client in clients)
    )
    codes = {result.error_code for (result,) in results}
    assert 0 in codes
    assert codes <= {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.slow
@on_broker(both=False)
async def test_a_thousand_partitions(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 600)
    (result,) = await delete(client, DeleteTopicState(name="t"))
    assert result.error_code == 0
    assert broker.node.replicas.partitions == {}
    assert await broker.session.exists("/brokers/topics/t") is None
