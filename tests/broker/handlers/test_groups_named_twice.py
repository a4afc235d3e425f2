"""Groups that a request names again cost nothing again."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from tests.broker.group_requests import commit
from tests.broker.running import RunningBroker, on_broker
from tests.support.awaiting import until
from tests.support.messages import error_codes


@on_broker({"offsets.topic.num.partitions": "1"}, both=False)
async def test_groups_named_twice(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("orders")
    await client.ask(FindCoordinatorRequest(coordinator_keys=["read", "read"]), 4)
    await until(lambda: not broker.node.groups.is_loading)
    await client.ask(commit("read", "orders", {0: 5}), 8)

    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("read", "a", "read")]
    fetched = await client.ask(OffsetFetchRequest(groups=asked), 8)
    assert [group.group_id for group in fetched.groups] == ["read", "a", "read"]
    assert error_codes(fetched.groups) == [0, 0, ErrorCode.INVALID_REQUEST]
    assert [len(group.topics) for group in fetched.groups] == [1, 0, 0]

    twice = ["read", "a", "read"]
    described = await client.ask(DescribeGroupsRequest(groups=twice), 5)
    assert [group.group_id for group in described.groups] == ["read", "a"]
    described = await client.ask(ConsumerGroupDescribeRequest(group_ids=twice), 1)
    assert [group.group_id for group in described.groups] == ["read", "a"]

    deleted = await client.ask(DeleteGroupsRequest(groups_names=[*twice, ""]), 2)
    assert [result.group_id for result in deleted.results] == ["read", "a", ""]
    assert error_codes(deleted.results) == [
        0,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,  # an empty id is an id here, as in Kafka
    ]
