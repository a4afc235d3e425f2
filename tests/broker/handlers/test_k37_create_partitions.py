import asyncio
from typing import Any

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import BadVersion
from odradek.broker.partitions import roles
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.broker.requests import create_partitions, delete_topics
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client
from tests.support.connections import TIMEOUT_S
from tests.support.messages import batch_of


async def extend(
    client: Client, name: str, count: int, *added: list[int]
) -> CreatePartitionsTopicResult:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in added]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_S * 1000)
    (result,) = (await client.ask(request, 3)).results
    assert isinstance(result, CreatePartitionsTopicResult)
    return result


def count_of(broker: RunningBroker, name: str = "t") -> int:
    return len(broker.node.metadata.topics[name].partitions)


@on_broker()
async def test_more_partitions(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    assert (await extend(client, "t", 3)).error_code == 0
    assert count_of(broker) == 3
    for partition in (1, 2):
        assert await client.append("t", batch_of(b"b"), partition=partition) == 0
    assert await client.append("t", batch_of(b"c")) == 1, "partition 0 is the same"
    assert (await extend(client, "t", 5, [0], [0])).error_code == 0
    assert count_of(broker) == 5


REFUSED = {
    "unknown": ("absent", 3, [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "the same": ("t", 2, [], ErrorCode.INVALID_PARTITIONS),
    "fewer": ("t", 1, [], ErrorCode.INVALID_PARTITIONS),
    "none": ("t", 0, [], ErrorCode.INVALID_PARTITIONS),
    "negative": ("t", -1, [], ErrorCode.INVALID_PARTITIONS),
    "too many": ("t", 10_001, [], ErrorCode.INVALID_PARTITIONS),
    "too few assigned": ("t", 4, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "too many assigned": ("t", 3, [[0], [0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unknown broker": ("t", 3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "broker twice": ("t", 3, [[0, 0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no broker": ("t", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize(("name", "count", "added", "code"), REFUSED.values(), ids=REFUSED)
@on_broker(both=False)
async def test_refusals(
    broker: RunningBroker, name: str, count: int, added: list[list[int]], code: ErrorCode
) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    result = await extend(client, name, count, *added)
    assert result.error_code == code
    assert result.error_message
    assert count_of(broker) == 2


@on_broker(both=False)
async def test_only_validating_and_naming_twice(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    answer = await client.ask(create_partitions("t", 5, validate_only=True), 3)
    assert answer.results[0].error_code == 0
    request = create_partitions("t", 5)
    request.topics *= 2
    (result,) = (await client.ask(request, 3)).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert count_of(broker) == 1


@on_broker(both=False)
async def test_several_at_a_time(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(5)]
    await clients[0].create_topic("t")
    results = await asyncio.gather(
        *(extend(client, "t", n) for n, client in enumerate(clients, start=2))
    )
    assert {r.error_code for r in results} <= {0, ErrorCode.INVALID_PARTITIONS}
    assert results[-1].error_code == 0
    assert count_of(broker) == 6


@on_broker(both=False)
async def test_a_topic_that_changes_meanwhile(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    session, set_node = broker.session, type(broker.session).set
    failures = [BadVersion("/brokers/topics/t")] * 2

    async def change_first(self: object, path: str, data: bytes, version: int = -1) -> object:
        if failures:
            raise failures.pop()
        return await set_node(session, path, data, version)

    monkeypatch.setattr(type(session), "set", change_first)
    assert (await extend(client, "t", 2)).error_code == 0
    assert failures == []


@on_broker(both=False)
async def test_a_topic_that_is_being_deleted(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, admin = await broker.client(), await broker.client()
    await client.create_topic("t")
    go_on, stop_replicas = asyncio.Event(), roles.stop

    async def stop_later(*arguments: Any) -> roles.Codes:
        await go_on.wait()
        return await stop_replicas(*arguments)

    monkeypatch.setattr(roles, "stop", stop_later)
    asked = asyncio.Event()
    assert await broker.session.exists("/admin/delete_topics/t", lambda _: asked.set()) is None
    deleting = asyncio.ensure_future(admin.ask(delete_topics(6, "t"), 6))
    await asked.wait()
    assert (await extend(client, "t", 2)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    # Who was let in just before hears of the end of the topic, and not of his time limit.
    waiting = asyncio.ensure_future(
        broker.node.topics._wait_for_leaders("t", 2, TIMEOUT_S * 1000, exists=True)
    )
    go_on.set()
    assert (await deleting).responses[0].error_code == 0
    with pytest.raises(Refused) as refused:
        await waiting
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@on_broker(both=False)
async def test_a_topic_that_is_being_moved(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    path = znodes.topic_path("t")
    node = znodes.TopicAssignment.decode((await broker.session.get(path))[0])
    moving = node._replace(adding_replicas={0: (7,)}).encode()
    await broker.session.set(path, moving)
    assert (await extend(client, "t", 2)).error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS
    answer = await client.ask(create_partitions("t", 2, validate_only=True), 3)
    assert answer.results[0].error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert (await broker.session.get(path))[0] == moving
