from types import SimpleNamespace
from typing import cast

import pytest

from odradek.broker.config import Config
from odradek.broker.core.refused_batches import RefusedBatches
from odradek.broker.handlers import APIS
from odradek.broker.handlers.k18_api_versions import handle
from odradek.broker.net.call import ANONYMOUS, Call
from odradek.broker.node import Node
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.group_requests import consumer_heartbeat
from tests.broker.running import RunningBroker, on_broker
from tests.support.api_versions import kafkas_ranges

NOT_YET = {17, *range(24, 32), 36, 50, 51, 57, 58, 65, 66}
"""Logins, transactions, access control, SCRAM, feature updates and forwarding."""


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


class Client:
    """Whoever asks."""

    listener_name = entrance = host = ""
    principal = ANONYMOUS
    refused_batches: RefusedBatches | None = None

    def note_software(self, software: str) -> None: ...

    def keep_memory(self, size_bytes: int) -> None: ...

    def let_go_memory(self, size_bytes: int) -> None: ...


def answer_with(**settings: str) -> ApiVersionsResponse:
    """What a broker with these settings answers, whose /feature has version 6."""
    config = Config({name.replace("_", "."): value for name, value in settings.items()})
    node = SimpleNamespace(
        config=config, controller=SimpleNamespace(feature_epoch=6), apis_on=lambda listener: APIS
    )
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return handle(request, Call(4, None, Client()), cast(Node, node))


@pytest.mark.parametrize("settings", [{}, {"zookeeper_connect": "h:1"}])
def test_the_ranges_are_those_of_kafka(settings: dict[str, str]) -> None:
    """Only what is not built is missing, and only the consumer groups are of a later Kafka."""
    answer = answer_with(**settings)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    kafkas = kafkas_ranges()
    later = {} if settings else {68: (0, 1), 69: (0, 1), 75: (0, 0)}
    assert {key: ranges[key] for key in ranges if ranges[key] != kafkas.get(key)} == later
    consumer_groups = {68, 69} if settings else set()
    assert kafkas.keys() - ranges.keys() <= NOT_YET | consumer_groups
    assert not consumer_groups & ranges.keys()


def test_consumer_groups_beside_kafka_if_they_are_named() -> None:
    protocols = {"group_coordinator_rebalance_protocols": "classic,consumer"}
    answer = answer_with(zookeeper_connect="h:1", **protocols)
    assert {68, 69} <= {api.api_key for api in answer.api_keys}


def test_features() -> None:
    answer = answer_with()
    assert (answer.supported_features, answer.finalized_features) == ([], [])
    assert answer.finalized_features_epoch == 6
    assert not answer.zk_migration_ready


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
