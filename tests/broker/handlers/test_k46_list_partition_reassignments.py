import pytest

from odradek.broker.cluster.controller import Reassignment
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingTopicReassignment,
)
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client


async def listed(client: Client, *asked: int, every: bool = False) -> list[tuple[str, list[int]]]:
    topic = ListPartitionReassignmentsTopics(name="t", partition_indexes=list(asked))
    request = ListPartitionReassignmentsRequest(topics=None if every else [topic])
    answer = await client.ask(request, 0)
    assert answer.error_code == 0
    topics: list[OngoingTopicReassignment] = answer.topics
    return [(t.name, [p.partition_index for p in t.partitions]) for t in topics]


@on_broker(both=False)
async def test_nothing_is_moved(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    assert await listed(client, every=True) == []
    assert await listed(client, 0, 9, -1) == []


@on_broker(both=False)
async def test_what_somebody_else_began(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving = [Reassignment("t", p, (0, 1), (1,), ()) for p in (0, 1)]
    monkeypatch.setattr(broker.node.controller, "reassignments", lambda: iter(moving))
    client = await broker.client()
    assert await listed(client, every=True) == [("t", [0, 1])]
    assert await listed(client, 1, 2) == [("t", [1])]
    assert await listed(client) == []
