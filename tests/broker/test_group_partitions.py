"""Which partition of `__consumer_offsets` a group belongs to, when there come to be more."""

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.broker.group_requests import commit, fetch_offsets
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
