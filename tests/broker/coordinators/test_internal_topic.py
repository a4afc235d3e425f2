"""Which partition of `__consumer_offsets` a group belongs to, when there come to be more."""

from functools import partial

import pytest

from odradek.broker.coordination.znodes import TopicAssignment, topic_path
from odradek.broker.core.partitioner import partition_of
from odradek.broker.core.topic_names import GROUP_OFFSETS_TOPIC
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.broker.group_requests import commit, fetch_offsets
from tests.broker.requests import delete_topics
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until

GROUPS = ("a", "b", "c", "d", "e")


@on_broker({"offsets.topic.num.partitions": "1"}, both=False)
async def test_groups_stay_where_they_are(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("orders")
    await client.ask(FindCoordinatorRequest(key="a"), 3)
    await until(lambda: not broker.node.groups.is_loading)
    for group_id in GROUPS:
        await client.ask(commit(group_id, "orders", {0: 7}), 8)
    more = CreatePartitionsTopic(name="__consumer_offsets", count=7, assignments=None)
    made = await client.ask(CreatePartitionsRequest(topics=[more], timeout_ms=10_000), 3)
    assert made.results[0].error_code == 0
    await until(lambda: len(broker.node.metadata.topics["__consumer_offsets"].partitions) == 7)
    for group_id in GROUPS:
        answer = await client.ask(fetch_offsets(group_id, "orders", 0), 5)
        assert answer.topics[0].partitions[0].committed_offset == 7


@on_broker({"offsets.topic.num.partitions": "1"}, both=False)
async def test_partitions_that_never_had_a_leader_count(broker: RunningBroker) -> None:
    """Clients are not told of them, but of Kafka's brokers each has counted them."""
    replicas = {0: (broker.broker_id,), 1: (9,), 2: (broker.broker_id,), 3: (9,)}
    assignment = TopicAssignment(replicas, topic_id=bytes(range(16)))
    await broker.session.create(topic_path(GROUP_OFFSETS_TOPIC), assignment.encode())
    topics = broker.node.metadata.topics
    await until(lambda: GROUP_OFFSETS_TOPIC in topics)
    await until(lambda: [p.partition for p in topics[GROUP_OFFSETS_TOPIC].partitions] == [0, 2])
    client = await broker.client()
    await client.create_topic("orders")
    for group_id in GROUPS:
        number = partition_of(group_id, 4)
        found = await client.ask(FindCoordinatorRequest(key=group_id), 3)
        await until(lambda: not broker.node.groups.is_loading)
        committed = await client.ask(commit(group_id, "orders", {0: 7}), 8)
        code = committed.topics[0].partitions[0].error_code
        if number in (1, 3):
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert code == ErrorCode.NOT_COORDINATOR
        else:
            assert (found.error_code, code) == (0, 0)
            assert group_id in broker.node.groups.shard_of(group_id).groups


@on_broker({"offsets.topic.num.partitions": "3"}, both=False)
async def test_another_topic_of_the_name_is_counted_anew(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("orders")
    for count in (3, 5):
        if count == 5:
            await client.ask(delete_topics(6, GROUP_OFFSETS_TOPIC), 6)
            await client.create_topic(GROUP_OFFSETS_TOPIC, count)
        for group_id in GROUPS:
            await client.ask(FindCoordinatorRequest(key=group_id), 3)
            await until(lambda: not broker.node.groups.is_loading)
            await client.ask(commit(group_id, "orders", {0: 7}), 8)
            shard = broker.node.groups.shard_of(group_id)
            assert shard.partition == partition_of(group_id, count)
            assert group_id in shard.groups


@pytest.mark.slow
@on_broker({"offsets.topic.num.partitions": "3"}, both=False)
async def test_a_topic_made_again_is_counted_though_nobody_looks_for_groups(
    broker: RunningBroker,
) -> None:
    """Its leaders are told before clients are; other brokers may be asked where the groups are."""
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(key="a"), 3)
    await until(lambda: not broker.node.groups.is_loading)
    await client.ask(delete_topics(6, GROUP_OFFSETS_TOPIC), 6)
    await client.create_topic(GROUP_OFFSETS_TOPIC, 5)

    async def is_coordinated(group_id: str) -> bool:
        beat = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
        code = (await client.ask(beat, 1)).error_code
        return bool(code == ErrorCode.UNKNOWN_MEMBER_ID)

    for group_id in GROUPS:
        await until(partial(is_coordinated, group_id))
