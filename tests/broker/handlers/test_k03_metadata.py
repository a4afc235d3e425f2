import asyncio

import pytest

from odradek.broker.member.metadata import FIRST_WORD_WITHIN_S, MetadataCache
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from odradek.protocol.schema import Message
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.requests import delete_topics, metadata
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import pass_over, until
from tests.support.client import Client

NOT_ASKED_FOR = -(1 << 31)


async def topics_of(
    client: Client, request: MetadataRequest, version: int = 12
) -> dict[str | None, MetadataResponseTopic]:
    answer: MetadataResponse = await client.ask(request, version)
    return {topic.name: topic for topic in answer.topics}


@on_broker({"broker.id": "7"}, both=False)
async def test_the_broker_and_its_partitions(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t", 3)
    answer = await client.ask(metadata("t"), 12)
    (node,) = answer.brokers
    assert (node.node_id, node.host, node.port) == (7, "127.0.0.1", broker.port)
    assert (answer.controller_id, answer.cluster_id) == (7, broker.node.metadata.cluster_id)
    (found,) = answer.topics
    assert (found.name, found.topic_id, found.is_internal) == ("t", topic.topic_id, False)
    assert [p.partition_index for p in found.partitions] == [0, 1, 2]
    for partition in found.partitions:
        assert (partition.leader_id, partition.leader_epoch, partition.error_code) == (7, 0, 0)
        assert partition.replica_nodes == partition.isr_nodes == [7]
        assert partition.offline_replicas == []


@on_broker(both=False)
async def test_which_topics_are_meant(broker: RunningBroker) -> None:
    client = await broker.client()
    for name in ("a", "b"):
        await client.create_topic(name)
    nothing, everything = MetadataRequest(topics=[]), MetadataRequest(topics=None)
    assert set(await topics_of(client, nothing, 0)) == {"a", "b"}
    for version in (1, 12):
        assert set(await topics_of(client, nothing, version)) == set()
        assert set(await topics_of(client, everything, version)) == {"a", "b"}
    assert set(await topics_of(client, metadata("a", "a", "b"), 12)) == {"a", "b"}


@on_broker(both=False)
async def test_topics_by_id(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("t")
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id, name=None)])
    assert (await topics_of(client, by_id))["t"].topic_id == topic.topic_id
    names = (None, "t", "other")
    often = [MetadataRequestTopic(topic_id=topic.topic_id, name=name) for name in names]
    answer = await client.ask(MetadataRequest(topics=often), 12)
    assert [each.name for each in answer.topics] == ["t"]
    unknown = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(range(16)), name=None)])
    found = (await topics_of(client, unknown))[None]
    assert (found.error_code, found.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, bytes(range(16)))
    for version in (10, 11):
        answer = await client.ask(
            MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id, name="t")]),
            version,
        )
        assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


@on_broker(both=False)
async def test_names_that_are_none(broker: RunningBroker) -> None:
    client = await broker.client()
    for name in ("", ".", "..", "a b", "a" * 250, "ü"):
        found = (await topics_of(client, metadata(name, create=True)))[name]
        assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@on_broker({"num.partitions": "3"})
async def test_what_is_missing_is_created(broker: RunningBroker) -> None:
    client = await broker.client()
    for version in (0, 3, 12):  # before v4 there is no way to forbid it
        name = f"made-{version}"
        request = metadata(name, create=version > 3)
        found = (await topics_of(client, request, version))[name]
        assert (found.error_code, found.partitions) == (ErrorCode.LEADER_NOT_AVAILABLE, [])
        await until(lambda: is_led(client, request, version))  # noqa: B023
        found = (await topics_of(client, request, version))[name]
        assert [p.leader_id for p in found.partitions] == [0, 0, 0]


async def is_led(client: Client, request: MetadataRequest, version: int = 12) -> bool:
    """Whether the topic that it names has leaders."""
    (found,) = (await topics_of(client, request, version)).values()
    return not found.error_code and all(p.leader_id >= 0 for p in found.partitions)


@on_broker({"offsets.topic.num.partitions": "3"}, both=False)
async def test_the_topic_of_the_groups_is_made_as_a_group_would_make_it(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    request = metadata("__consumer_offsets", create=True)
    await client.ask(request, 12)
    await until(lambda: is_led(client, request))
    assert len(broker.node.metadata.topics["__consumer_offsets"].partitions) == 3
    configs = await broker.node.topics.overrides("__consumer_offsets")
    assert configs["cleanup.policy"] == "compact"


@on_broker()
async def test_who_looks_at_what_he_has_deleted_sees_that_it_is_gone(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    deleted = await client.ask(delete_topics(6, "t"), 6)
    assert deleted.responses[0].error_code == 0
    found = (await topics_of(client, metadata("t", create=True)))["t"]
    assert (found.error_code, found.partitions) == (ErrorCode.LEADER_NOT_AVAILABLE, [])
    await until(lambda: is_led(client, metadata("t")))  # as in Kafka, looking has made it anew


@on_broker(both=False)
async def test_what_is_missing_is_not_created_if_the_client_forbids_it(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    found = (await topics_of(client, metadata("absent", create=False)))["absent"]
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.node.metadata.topics == {}


@on_broker({"auto.create.topics.enable": "false"}, both=False)
async def test_what_is_missing_is_not_created_if_the_broker_forbids_it(
    broker: RunningBroker,
) -> None:
    client = await broker.client()
    found = (await topics_of(client, metadata("absent", create=True)))["absent"]
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@on_broker({"default.replication.factor": "3"}, both=False)
async def test_why_a_topic_was_not_created(broker: RunningBroker) -> None:
    client = await broker.client()
    for _ in range(2):
        found = (await topics_of(client, metadata("t", create=True)))["t"]
        assert found.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@on_broker(both=False)
async def test_the_answer_waits_for_the_first_word_of_a_controller(broker: RunningBroker) -> None:
    """librdkafka would take "no brokers" for an answer, and ask again only after minutes."""
    cache, client = broker.node.metadata, await broker.client()
    cache.is_told = False
    asked = asyncio.create_task(client.ask(metadata("t", create=True), 12))
    described = asyncio.create_task((await broker.client()).ask(DescribeClusterRequest(), 1))
    await (await broker.client()).ask(ApiVersionsRequest(), 0)
    assert not asked.done() and not described.done()
    cache.update_partitions([], more_to_come=True)
    await (await broker.client()).ask(ApiVersionsRequest(), 0)
    assert not asked.done() and not described.done()
    cache.update_partitions([])
    answer = await asked
    assert (answer.controller_id, [b.node_id for b in answer.brokers]) == (0, [0])
    assert answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert [b.broker_id for b in (await described).brokers] == [0]


@on_broker(both=False)
async def test_others_that_say_what_there_is_wait_as_well(broker: RunningBroker) -> None:
    await (await broker.client()).create_topic("t")
    configs = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    requests: list[tuple[Message, int]] = [
        (FindCoordinatorRequest(coordinator_keys=["g"]), 4),
        (DescribeConfigsRequest(resources=[configs]), 4),
        (DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0),
    ]
    cache = broker.node.metadata
    topics, cache.topics, cache.is_told = cache.topics, {}, False
    asked = [
        asyncio.create_task((await broker.client()).ask(request, version))
        for request, version in requests
    ]
    await (await broker.client()).ask(ApiVersionsRequest(), 0)
    assert not any(task.done() for task in asked)
    cache.topics = topics
    cache.update_partitions([])
    coordinator, described, found = [await task for task in asked]
    assert coordinator.coordinators[0].error_code == ErrorCode.NONE
    assert described.results[0].error_code == ErrorCode.NONE
    assert [len(topic.partitions) for topic in found.topics] == [1]


@asynchronous
async def test_who_has_waited_is_answered_in_a_turn_of_his_own() -> None:
    """What they are told of all topics may take ms each, and hundreds may have come."""
    cache, answered = MetadataCache("cluster"), list[int]()

    async def ask(number: int) -> None:
        await cache.wait_for_first_word()
        answered.append(number)

    waiting = [asyncio.create_task(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    cache.update_partitions([])
    while len(answered) < len(waiting):
        before = len(answered)
        await asyncio.sleep(0)
        assert len(answered) <= before + 1


@asynchronous
async def test_a_word_that_comes_with_the_time_out_counts() -> None:
    cache = MetadataCache("cluster")
    waiting = asyncio.create_task(cache.wait_for_first_word())
    await asyncio.sleep(0)
    # Later than the time-out, but the loop is busy until both are due.
    asyncio.get_running_loop().call_later(FIRST_WORD_WITHIN_S, cache.update_partitions, [])
    await pass_over(FIRST_WORD_WITHIN_S)
    await waiting


@on_broker(both=False)
async def test_without_a_word_it_is_asked_again(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is anything created: clients ask for topics that have been there for long."""
    monkeypatch.setattr("odradek.broker.member.metadata.FIRST_WORD_WITHIN_S", 0.01)
    broker.node.metadata.is_told = False
    for request in (metadata("t", create=True), DescribeClusterRequest()):
        client = await broker.client()
        client.send(request, 1)
        assert await client.is_closed()
    assert broker.node.metadata.topics == {}


@on_broker()
async def test_many_clients_name_one_new_topic(broker: RunningBroker) -> None:
    clients = [await broker.client() for _ in range(10)]
    request = metadata("new", create=True)
    answers = await asyncio.gather(*(topics_of(client, request) for client in clients))
    codes = {answer["new"].error_code for answer in answers}
    assert ErrorCode.LEADER_NOT_AVAILABLE in codes
    assert codes <= {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE}, "it may be there by then"
    await until(lambda: is_led(clients[0], request))
    answers = await asyncio.gather(*(topics_of(client, request) for client in clients))
    assert len({answer["new"].topic_id for answer in answers}) == 1


@on_broker(both=False)
async def test_what_a_client_may_do(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    request = metadata("t")
    answer = await client.ask(request, 8)
    assert answer.cluster_authorized_operations == NOT_ASKED_FOR
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    request.include_cluster_authorized_operations = True
    request.include_topic_authorized_operations = True
    answer = await client.ask(request, 8)
    assert answer.cluster_authorized_operations > 0
    assert answer.topics[0].topic_authorized_operations > 0


@on_broker(both=False)
async def test_a_partition_without_leader(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    state = broker.node.replicas.partitions["t", 0].state._replace(leader=-1, leader_epoch=1)
    broker.node.metadata.update_partitions([state])
    (partition,) = (await topics_of(client, metadata("t")))["t"].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.leader_id == -1
