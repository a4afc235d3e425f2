from pathlib import Path

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.client import Client
from tests.support.messages import error_codes

RATE = "producer_byte_rate"


def entry(user: str | None, **quotas: float | None) -> EntryData:
    ops = [
        OpData(key=key, value=0.0 if value is None else value, remove=value is None)
        for key, value in quotas.items()
    ]
    return EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=ops)


async def alter(client: Client, *entries: EntryData, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return error_codes((await client.ask(request, 1)).entries)


async def describe(client: Client, *components: tuple[str, int]) -> DescribeClientQuotasResponse:
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match, match=None)
            for kind, match in components
        ]
    )
    answer = await client.ask(request, 1)
    assert isinstance(answer, DescribeClientQuotasResponse)
    return answer


async def users(client: Client) -> dict[str | None, dict[str, float]]:
    entries = (await describe(client, ("user", 2))).entries
    assert entries is not None
    return {e.entity[0].entity_name: {v.key: v.value for v in e.values} for e in entries}


@on_broker(both=False)
async def test_set_change_and_remove(broker: RunningBroker) -> None:
    client = await broker.client()
    a, everyone = entry("a", producer_byte_rate=1.0), entry(None, request_percentage=2.5)
    assert await alter(client, a, everyone, validate_only=True) == [0, 0]
    assert await users(client) == {}
    assert await alter(client, a, everyone) == [0, 0]
    assert await users(client) == {"a": {RATE: 1.0}, None: {"request_percentage": 2.5}}
    more = entry("a", producer_byte_rate=None, consumer_byte_rate=3.0)
    assert await alter(client, more) == [0]
    assert await users(client) == {
        "a": {"consumer_byte_rate": 3.0},
        None: {"request_percentage": 2.5},
    }
    assert await alter(client, entry("a", consumer_byte_rate=None)) == [0]
    assert list(await users(client)) == [None]


@on_broker(both=False)
async def test_each_entity_is_refused_for_itself(broker: RunningBroker) -> None:
    client = await broker.client()
    bad = entry("b", no_such=1.0)
    codes = await alter(client, bad, entry("a", producer_byte_rate=1.0), entry(""))
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert await users(client) == {"a": {RATE: 1.0}}
    twice = [entry("c", producer_byte_rate=1.0), entry("c", consumer_byte_rate=2.0)]
    assert await alter(client, *twice) == [0]
    assert (await users(client))["c"] == {"consumer_byte_rate": 2.0, RATE: 1.0}


@on_broker(both=False)
async def test_a_question_that_is_none(broker: RunningBroker) -> None:
    client = await broker.client()
    answer = await describe(client, ("user", 2), ("ip", 2))
    assert (answer.error_code, answer.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert answer.error_message


@asynchronous
async def test_they_are_there_after_a_restart(tmp_path: Path) -> None:
    for expected in ({}, {"a": {RATE: 1.0}}):
        async with running(tmp_path) as broker:
            client = await broker.client()
            assert await users(client) == expected
            assert await alter(client, entry("a", producer_byte_rate=1.0)) == [0]
