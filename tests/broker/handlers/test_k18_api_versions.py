import pytest

from odradek.broker.handlers import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from tests.broker.group_requests import consumer_heartbeat
from tests.broker.running import RunningBroker, on_broker


@on_broker(both=False)
async def test_it_lists_what_is_served(broker: RunningBroker) -> None:
    client = await broker.client()
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for version in range(5):
        answer = await client.ask(request, version)
        assert answer.error_code == 0
        assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == [
            (api.key, api.first, api.last) for api in APIS.values() if api.key < 20_000
        ]


@on_broker({"group.coordinator.rebalance.protocols": "classic"}, both=False)
async def test_consumer_groups_can_be_switched_off(broker: RunningBroker) -> None:
    client = await broker.client()
    answer = await client.ask(ApiVersionsRequest(), 2)
    assert not {68, 69} & {api.api_key for api in answer.api_keys}
    heartbeat = await client.ask(consumer_heartbeat("g", "m"), 1)
    assert heartbeat.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a-", "1"), ("a", "1\n"), ("ü", "1")],
)
@on_broker(both=False)
async def test_who_names_himself_badly(broker: RunningBroker, name: str, version: str) -> None:
    client = await broker.client()
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    answer = await client.ask(request, 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert (await client.ask(request, 2)).error_code == 0, "v2 has no names"
