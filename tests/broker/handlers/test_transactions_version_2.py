"""Version 2 of transactions on a running broker, and that only such a broker has it."""

from typing import Any, Final

import pytest

from odradek.broker.config import Config, ConfigError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.broker.running import RunningBroker, on_broker
from tests.broker.transaction_requests import end, produce_in_transaction
from tests.support.client import Client

from .transacting import ID, SETTINGS, TOPIC, producer_of

VERSION_2: Final = {**SETTINGS, "odradek.transaction.version": "2"}


def test_it_does_not_go_with_zookeeper() -> None:
    with pytest.raises(ConfigError, match="know no version 2 of transactions"):
        Config({"odradek.transaction.version": "2", "zookeeper.connect": "localhost:2181"})


@pytest.mark.parametrize("text", ["1", "3", "-1", "two"])
def test_there_are_two_versions(text: str) -> None:
    with pytest.raises(ConfigError, match=r"odradek\.transaction\.version"):
        Config({"odradek.transaction.version": text})


async def features(broker: RunningBroker, version: int) -> Any:
    client = await broker.client()
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    return await client.ask(request, version)


@on_broker(SETTINGS, both=False)
async def test_without_it_no_version_of_it_is_served(broker: RunningBroker) -> None:
    answer = await features(broker, 4)
    assert (answer.supported_features, answer.finalized_features) == ([], [])
    assert {api.api_key: api.max_version for api in answer.api_keys}[26] == 4
    client = await broker.client()
    with pytest.raises(ConnectionError):
        await client.ask(end(ID, (1, 0)), 5)


@on_broker(VERSION_2, both=False)
async def test_the_feature_is_shown(broker: RunningBroker) -> None:
    answer = await features(broker, 4)
    (supported,), (finalized,) = answer.supported_features, answer.finalized_features
    assert (supported.name, supported.min_version, supported.max_version) == (
        "transaction.version",
        0,
        2,
    )
    assert (finalized.min_version_level, finalized.max_version_level) == (2, 2)
    assert answer.finalized_features_epoch >= 0
    assert (await features(broker, 3)).supported_features == []
    last = {api.api_key: api.max_version for api in answer.api_keys}
    assert [last[key] for key in (0, 26, 27, 28, 66)] == [12, 5, 2, 5, 2]


@on_broker(VERSION_2, both=False)
async def test_each_end_gives_the_next_epoch(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    client, first = producer.client, producer.identity
    answer = await client.ask(end(ID, first, commits=False), 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, first[0], 1)
    answer = await client.ask(end(ID, first, commits=False), 5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, first[0], 1)
    assert (await client.ask(end(ID, first), 5)).error_code == ErrorCode.INVALID_TXN_STATE


@on_broker(VERSION_2, both=False)
async def test_a_late_batch_does_not_disturb_the_next_transaction(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    client, first = producer.client, producer.identity

    async def code(epoch: int, sequence: int) -> int:
        request = produce_in_transaction(
            ID, (first[0], epoch), TOPIC, sequence=sequence, timestamp=producer.timestamp
        )
        found: int = (await client.ask(request, 12)).responses[0].partition_responses[0].error_code
        return found

    assert await code(0, 0) == 0
    assert (await client.ask(end(ID, first), 5)).producer_epoch == 1
    assert [await code(1, sequence) for sequence in range(3)] == [0, 0, 0]
    for epoch in (0, 2):  # too late, and made up
        assert await code(epoch, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await code(1, 3) == 0
    assert (await client.ask(end(ID, (first[0], 1)), 5)).error_code == 0


@on_broker(VERSION_2, both=False)
async def test_ids_are_listed_by_a_pattern(broker: RunningBroker) -> None:
    client = (await producer_of(broker)).client

    async def found(client: Client, pattern: str) -> Any:
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        return await client.ask(request, 2)

    matching = await found(client, f"{ID[0]}.*")
    assert [each.transactional_id for each in matching.transaction_states] == [ID]
    assert (await found(client, "x")).transaction_states == []
    assert (await found(client, "(")).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
