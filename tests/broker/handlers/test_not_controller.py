"""What only the controller does, asked of another broker: refused where Kafka says it."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tests.broker.requests import create_partitions, delete_topics
from tests.broker.running import RunningBroker, on_broker
from tests.support.messages import creatable, error_codes

from .controllers import Inactive

NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER


@on_broker(both=False)
async def test_topics(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await broker.client()
    await client.create_topic("t")
    monkeypatch.setattr(broker.node, "controller", Inactive())
    twice = [creatable("a"), creatable("b"), creatable("b")]
    created = await client.ask(CreateTopicsRequest(topics=twice), 7)
    assert error_codes(created.topics) == [NOT_CONTROLLER] * 2
    deleted = await client.ask(delete_topics(6, "t", "absent"), 6)
    assert error_codes(deleted.responses) == [NOT_CONTROLLER] * 2
    extended = await client.ask(create_partitions("t", 3), 3)
    assert error_codes(extended.results) == [NOT_CONTROLLER]
    assert len(broker.node.metadata.topics["t"].partitions) == 1


@on_broker(both=False)
async def test_reassignments(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await broker.client()
    monkeypatch.setattr(broker.node, "controller", Inactive())
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0)])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    altered = await client.ask(request, 0)
    assert (altered.error_code, altered.responses) == (NOT_CONTROLLER, [])
    listed = await client.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert (listed.error_code, listed.topics) == (NOT_CONTROLLER, [])


@on_broker(both=False)
async def test_elections(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka says it for each partition; of all partitions, for those that this broker knows."""
    client = await broker.client()
    await client.create_topic("t", 2)
    monkeypatch.setattr(broker.node, "controller", Inactive())
    for topics in (None, [TopicPartitions(topic="t", partitions=[0, 1])]):
        answer = await client.ask(ElectLeadersRequest(topic_partitions=topics), 2)
        assert answer.error_code == 0
        (topic,) = answer.replica_election_results
        assert error_codes(topic.partition_result) == [NOT_CONTROLLER] * 2
