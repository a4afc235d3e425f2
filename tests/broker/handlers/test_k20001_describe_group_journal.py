from odradek.broker.handlers.k20001_describe_group_journal import GROUPS_MAX
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k20001_describe_group_journal import (
    DescribedGroupJournal,
    DescribeGroupJournalRequest,
    DescribeGroupJournalResponse,
)
from tests.broker.group_requests import join
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client


async def journals(client: Client, *groups: str) -> list[DescribedGroupJournal]:
    answer = await client.ask(DescribeGroupJournalRequest(groups=list(groups)), 0)
    assert isinstance(answer, DescribeGroupJournalResponse)
    return answer.groups


@on_broker({"group.initial.rebalance.delay.ms": "0"}, both=False)
async def test_a_join_is_told_and_an_absent_group_is_refused(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(coordinator_keys=["read"]), 4)
    member_id = (await client.ask(join("read"), 3)).member_id
    read, absent = await journals(client, "read", "absent", "read")
    assert (read.error_code, read.group_id, read.protocol_type) == (0, "read", "consumer")
    assert read.group_state == "CompletingRebalance"
    assert next(e.event for e in read.entries if e.member_id == member_id) == "joined"
    assert all(entry.timestamp_ms > 0 for entry in read.entries)
    assert (absent.error_code, absent.entries) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@on_broker(both=False)
async def test_who_does_not_coordinate_says_so(broker: RunningBroker) -> None:
    client = await broker.client()
    (refused,) = await journals(client, "nobody-has-asked-for-a-coordinator-yet")
    assert refused.error_code == ErrorCode.NOT_COORDINATOR


@on_broker(both=False)
async def test_groups_are_bounded(broker: RunningBroker) -> None:
    client = await broker.client()
    found = await journals(client, *(f"group-{n}" for n in range(GROUPS_MAX + 1)))
    assert [j.error_code == ErrorCode.INVALID_REQUEST for j in found] == [False] * GROUPS_MAX + [
        True
    ]


@on_broker(both=False)
async def test_it_is_not_advertised(broker: RunningBroker) -> None:
    client = await broker.client()
    answer = await client.ask(ApiVersionsRequest(), 0)
    assert all(api.api_key < DescribeGroupJournalRequest.API_KEY for api in answer.api_keys)
