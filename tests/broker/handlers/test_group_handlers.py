"""The handlers of groups: the forms that the versions ask for, and what a restart leaves."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.handlers import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from tests.broker.group_requests import (
    commit,
    consumer_heartbeat,
    delete_offsets,
    fetch_offsets,
    join,
    leave,
    sync,
)
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.awaiting import until
from tests.support.client import Client

AT_ONCE = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "2",
}
TOPIC = "orders"


async def client_of(broker: RunningBroker) -> Client:
    client = await broker.client()
    await client.create_topic(TOPIC, 2)
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    await until(lambda: not broker.node.groups.is_loading)
    return client


async def form_group(client: Client, group_id: str) -> str:
    """A stable group of one member; its id."""
    member_id: str = (await client.ask(join(group_id), 5)).member_id
    joined = await client.ask(join(group_id, member_id), 5)
    await client.ask(sync(group_id, joined.generation_id, member_id, {member_id: b"a"}), 3)
    return member_id


@pytest.mark.slow
@on_broker(AT_ONCE, both=False)
async def test_offsets_in_every_version(broker: RunningBroker) -> None:
    client = await client_of(broker)
    for version in range(APIS[8].last + 1):
        answer = await client.ask(commit("g", TOPIC, {0: version, 7: 1}, metadata="m"), version)
        codes = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
        assert codes == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        fetched = await client.ask(fetch_offsets("g", TOPIC, 0, 1), version)
        topics = fetched.groups[0].topics if version >= 8 else fetched.topics
        found = [(p.partition_index, p.committed_offset, p.metadata) for p in topics[0].partitions]
        assert found == [(0, version, "m"), (1, -1, "")]


@on_broker(AT_ONCE, both=False)
async def test_offsets_of_several_groups(broker: RunningBroker) -> None:
    client = await client_of(broker)
    for group_id, offset in (("g", 1), ("h", 2)):
        await client.ask(commit(group_id, TOPIC, {0: offset}), 8)
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("h", "none", "g")]
    answer = await client.ask(OffsetFetchRequest(groups=asked), 8)
    offsets = [[p.committed_offset for t in g.topics for p in t.partitions] for g in answer.groups]
    assert [(g.group_id, g.error_code) for g in answer.groups] == [("h", 0), ("none", 0), ("g", 0)]
    assert offsets == [[2], [], [1]]


@on_broker(AT_ONCE, both=False)
async def test_groups_by_state_and_type(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await form_group(client, "classic")
    await client.ask(commit("empty", TOPIC, {0: 1}), 8)
    await client.ask(consumer_heartbeat("new", "m", topics=[TOPIC]), 1)

    async def listed(*, states: Sequence[str] = (), types: Sequence[str] = ()) -> set[Any]:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = await client.ask(request, 5)
        return {(g.group_id, g.group_state, g.group_type) for g in answer.groups}

    everything = {
        ("classic", "Stable", "classic"),
        ("empty", "Empty", "classic"),
        ("new", "Stable", "consumer"),
    }
    assert await listed() == everything
    assert await listed(states=["empty"]) == {("empty", "Empty", "classic")}
    assert await listed(types=["Consumer"]) == {("new", "Stable", "consumer")}
    assert await listed(states=["Stable"], types=["classic"]) == {("classic", "Stable", "classic")}


@on_broker(AT_ONCE, both=False)
async def test_groups_are_described(broker: RunningBroker) -> None:
    client = await client_of(broker)
    member_id = await form_group(client, "g")
    for version in range(APIS[15].last + 1):
        answer = await client.ask(
            DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=version >= 3),
            version,
        )
        group, none = answer.groups
        assert (group.group_state, group.protocol_data) == ("Stable", "range")
        assert [(m.member_id, m.client_host) for m in group.members] == [(member_id, "/127.0.0.1")]
        assert (none.error_code, none.group_state) == (0, "Dead")
        assert (group.authorized_operations > 0) == (version >= 3)
    await client.ask(consumer_heartbeat("new", "m", topics=[TOPIC]), 1)
    request = ConsumerGroupDescribeRequest(group_ids=["new", "g"])
    new, classic = (await client.ask(request, 1)).groups
    assert (new.group_state, new.assignor_name) == ("Stable", "uniform")
    assert [len(t.partitions) for t in new.members[0].assignment.topic_partitions] == [2]
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@on_broker(AT_ONCE, both=False)
async def test_groups_are_deleted(broker: RunningBroker) -> None:
    client = await client_of(broker)
    member_id = await form_group(client, "g")
    await client.ask(commit("h", TOPIC, {0: 1, 1: 2}), 8)
    request = DeleteGroupsRequest(groups_names=["g", "h", "none", "h"])
    answer = await client.ask(request, 2)
    assert [(r.group_id, r.error_code) for r in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("h", 0),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert (await client.ask(leave("g", member_id), 4)).members[0].error_code == 0
    gone = await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert gone.results[0].error_code == 0
    assert (await client.ask(ListGroupsRequest(), 5)).groups == []


@on_broker(AT_ONCE, both=False)
async def test_offsets_are_deleted(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await client.ask(commit("g", TOPIC, {0: 1, 1: 2}), 8)
    answer = await client.ask(delete_offsets("g", TOPIC, 1, 9), 0)
    codes = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
    assert codes == {1: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    fetched = await client.ask(fetch_offsets("g", TOPIC, 0, 1), 7)
    assert [p.committed_offset for p in fetched.topics[0].partitions] == [1, -1]
    refused = await client.ask(delete_offsets("", TOPIC, 1), 0)
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID


def test_groups_and_offsets_outlive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, AT_ONCE) as broker:
            client = await client_of(broker)
            member_id = await form_group(client, "g")
            await client.ask(commit("g", TOPIC, {0: 5}, generation_id=1, member_id=member_id), 8)
            entered = await client.ask(consumer_heartbeat("new", "m", topics=[TOPIC]), 1)
        async with running(tmp_path, AT_ONCE) as broker:
            client = await broker.client()
            await until(lambda: not broker.node.groups.is_loading)
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
            assert (await client.ask(beat, 4)).error_code == 0
            fetched = await client.ask(fetch_offsets("g", TOPIC, 0), 7)
            assert fetched.topics[0].partitions[0].committed_offset == 5
            again = await client.ask(consumer_heartbeat("new", "m", entered.member_epoch), 1)
            assert (again.error_code, again.member_epoch) == (0, entered.member_epoch)

    asyncio.run(main())
