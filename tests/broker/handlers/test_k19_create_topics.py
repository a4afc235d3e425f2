import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.administration.topics import NewTopic
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.broker.requests import metadata
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client
from tests.support.connections import TIMEOUT_S
from tests.support.messages import creatable

DEFAULT = -1


async def create(
    client: Client,
    *topics: CreatableTopic,
    validate_only: bool = False,
    version: int = 7,
    timeout_ms: int = TIMEOUT_S * 1000,
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    answer = await client.ask(request, version)
    assert isinstance(answer, CreateTopicsResponse)
    return answer.topics


def assigned(
    name: str, *replicas: list[int], first: int = 0, count: int = DEFAULT, factor: int = DEFAULT
) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=n, broker_ids=ids)
        for n, ids in enumerate(replicas, start=first)
    ]
    return CreatableTopic(
        name=name, num_partitions=count, replication_factor=factor, assignments=assignments
    )


def with_config(name: str, *configs: tuple[str, str | None]) -> CreatableTopic:
    topic = creatable(name)
    topic.configs = [CreatableTopicConfig(name=key, value=value) for key, value in configs]
    return topic


@on_broker({"num.partitions": "2"})
async def test_a_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    (result,) = await create(client, creatable("t", 3, configs={"retention.ms": "1000"}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    configs = {config.name: config for config in result.configs or ()}
    assert configs["retention.ms"].value == "1000"
    (found,) = (await client.ask(metadata("t"), 12)).topics
    assert found.topic_id == result.topic_id
    assert [p.leader_id for p in found.partitions] == [0, 0, 0]
    assert (Path(broker.data_dir) / "t-2").is_dir()
    (result,) = await create(client, creatable("defaults", DEFAULT, factor=DEFAULT))
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    (result,) = await create(client, assigned("assigned", [0], [0], [0]))
    assert (result.error_code, result.num_partitions) == (0, 3)


REFUSED = {
    "no name": (creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dots": (creatable(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "slash": (creatable("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "long": (creatable("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "exists": (creatable("old.name"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "collides": (creatable("old_name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "0 partitions": (creatable("t", 0), ErrorCode.INVALID_PARTITIONS),
    "-2 partitions": (creatable("t", -2), ErrorCode.INVALID_PARTITIONS),
    "too many partitions": (creatable("t", 10_001), ErrorCode.INVALID_PARTITIONS),
    "0 replicas": (creatable("t", factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "-2 replicas": (creatable("t", factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "2 replicas": (creatable("t", factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "both": (assigned("t", [0], count=1), ErrorCode.INVALID_REQUEST),
    "both, too": (assigned("t", [0], factor=1), ErrorCode.INVALID_REQUEST),
    "unknown broker": (assigned("t", [5]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "broker twice": (assigned("t", [0, 0]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "no broker": (assigned("t", []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a gap": (assigned("t", [0], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unequal": (assigned("t", [0], []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "unknown config": (with_config("t", ("no.such", "1")), ErrorCode.INVALID_CONFIG),
    "bad config": (with_config("t", ("retention.ms", "x")), ErrorCode.INVALID_CONFIG),
    "null config": (with_config("t", ("retention.ms", None)), ErrorCode.INVALID_CONFIG),
}


@pytest.mark.parametrize(("topic", "code"), REFUSED.values(), ids=REFUSED)
@on_broker(both=False)
async def test_refusals(broker: RunningBroker, topic: CreatableTopic, code: ErrorCode) -> None:
    client = await broker.client()
    await client.create_topic("old.name")
    good, bad = await create(client, creatable("good"), topic)
    assert good.error_code == 0
    assert bad.error_code == code
    assert bad.error_message
    assert set(broker.node.metadata.topics) == {"old.name", "good"}


@on_broker(both=False)
async def test_what_is_named_twice(broker: RunningBroker) -> None:
    client = await broker.client()
    results = await create(client, creatable("t"), creatable("u"), creatable("t"))
    assert {r.name: r.error_code for r in results} == {"t": ErrorCode.INVALID_REQUEST, "u": 0}
    twice = assigned("v", [0])
    twice.assignments *= 2
    results = await create(client, twice, with_config("w", *[("retention.ms", "1")] * 2))
    assert results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert results[1].error_code == ErrorCode.INVALID_REQUEST
    assert set(broker.node.metadata.topics) == {"u"}


@on_broker(both=False)
async def test_only_validating(broker: RunningBroker) -> None:
    client = await broker.client()
    good, bad = await create(client, creatable("t", 3), creatable("u", 0), validate_only=True)
    assert (good.error_code, good.num_partitions, good.topic_id) == (0, 3, bytes(16))
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert broker.node.metadata.topics == {}
    assert await broker.session.children("/brokers/topics") == []


@pytest.mark.slow
@on_broker(both=False)
async def test_too_many_topics_in_one_request(broker: RunningBroker) -> None:
    client = await broker.client()
    topics = [creatable(f"t{n}") for n in range(10_001)]
    codes = {result.error_code for result in await create(client, *topics)}
    assert codes == {ErrorCode.POLICY_VIOLATION}


@on_broker()
async def test_one_name_from_many_clients(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(8)]
    results = await asyncio.gather(
        *(create(client, creatable("t", n + 1)) for n, client in enumerate(clients))
    )
    codes = sorted(result.error_code for (result,) in results)
    assert codes == [0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 7
    (winner,) = (result for (result,) in results if result.error_code == 0)
    (found,) = (await clients[0].ask(metadata("t"), 12)).topics
    assert (found.topic_id, len(found.partitions)) == (winner.topic_id, winner.num_partitions)


@on_broker(both=False)
async def test_who_does_not_wait_is_told_so(broker: RunningBroker) -> None:
    client = await broker.client()
    for timeout_ms in (0, -1):
        (result,) = await create(client, creatable(f"t{timeout_ms}"), timeout_ms=timeout_ms)
        assert result.error_code in (0, ErrorCode.REQUEST_TIMED_OUT)
    names = (await client.ask(metadata("t0", "t-1"), 12)).topics
    assert len(names) == 2


@on_broker(both=False)
async def test_a_client_that_hangs_up_has_created_its_topic(broker: RunningBroker) -> None:
    client, other = await broker.client(), await broker.client()
    request = CreateTopicsRequest(topics=[creatable("t", 50)], timeout_ms=10_000)
    client.send(request, 7)
    await client.writer.drain()
    client.abort()
    (result,) = await create(other, creatable("u"))
    assert result.error_code == 0
    assert broker.node.replicas.partitions.keys() >= {("u", 0)}


@pytest.mark.slow
@on_broker(both=False)
async def test_others_have_their_turn_while_many_are_checked(broker: RunningBroker) -> None:
    topics = broker.node.topics
    check, checked, seen = topics.validate_new, 0, set[int]()

    def count(name: str, **asked: Any) -> NewTopic:
        nonlocal checked
        checked += 1
        return check(name, **asked)

    async def look() -> None:
        while True:
            seen.add(checked)
            await asyncio.sleep(0)

    topics.validate_new = count  # type: ignore[method-assign]
    client = await broker.client()
    many = [creatable(f"t-{number}") for number in range(500)]
    looking = asyncio.create_task(look())
    results = await create(client, *many, validate_only=True)
    looking.cancel()
    assert {result.error_code for result in results} == {0}
    assert len(seen) >= 5
    assert not broker.node.metadata.topics
