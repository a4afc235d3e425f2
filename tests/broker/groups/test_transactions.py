"""Committed offsets in transactions, at work in a broker: before and after the end, and loaded."""

import asyncio
from pathlib import Path

import pytest

from odradek.broker.core.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.records import MarkerType, control_batch, read_header
from tests.broker.group_requests import commit, txn_commit
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.awaiting import until
from tests.support.client import Client

from .test_coordinator import AT_ONCE, client_of, offset_of, reading_slowly
from .told_offsets import UNSTABLE, told

UNVERIFIED = {**AT_ONCE, "transaction.partition.verification.enable": "false"}
"""No coordinator knows of these transactions."""

PRODUCER = 7


async def commit_in(client: Client, offset: int, *, producer_epoch: int = 0) -> int:
    """Commit for `orders`, partition 0, in the producer's transaction; the code."""
    request = txn_commit(
        "g", "orders", {0: offset}, producer_id=PRODUCER, producer_epoch=producer_epoch
    )
    answer = await client.ask(request, 4)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def groups_log(broker: RunningBroker) -> Partition:
    return broker.node.replicas.partitions["__consumer_offsets", 0]


def append_marker(broker: RunningBroker, outcome: MarkerType) -> None:
    marker = control_batch(
        outcome, producer_id=PRODUCER, producer_epoch=0, timestamp=1, coordinator_epoch=0
    )
    groups_log(broker).append(memoryview(marker), read_header(marker), wall_ms=1)


def end(broker: RunningBroker, outcome: MarkerType) -> None:
    """Do as WriteTxnMarkers does."""
    append_marker(broker, outcome)
    is_committed = outcome is MarkerType.COMMIT
    broker.node.groups.transaction_ended(0, PRODUCER, is_committed=is_committed)


def load_again(broker: RunningBroker) -> None:
    broker.node.groups.resign_partitions([0])
    broker.node.groups.lead(groups_log(broker))


async def offset(client: Client, *, stable: bool = True) -> int | str:
    found = await told(client, ["g"])
    return found["stable" if stable else "any"]["g"]["0"]


@on_broker(UNVERIFIED, both=False)
async def test_a_later_plain_commit_stays_at_the_end_of_the_transaction(
    broker: RunningBroker,
) -> None:
    client = await client_of(broker)
    assert await commit_in(client, 10) == 0
    await client.ask(commit("g", "orders", {0: 20}), 8)
    assert (await offset(client), await offset(client, stable=False)) == (UNSTABLE, 20)
    load_again(broker)
    assert (await offset(client), await offset(client, stable=False)) == (UNSTABLE, 20)
    end(broker, MarkerType.COMMIT)
    assert await offset(client) == 20
    load_again(broker)
    assert await offset(client) == 20


@on_broker(UNVERIFIED, both=False)
async def test_the_end_shows_as_soon_as_it_is_told(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await client.ask(commit("g", "orders", {0: 5}), 8)
    for value, outcome, expected in ((10, MarkerType.ABORT, 5), (11, MarkerType.COMMIT, 11)):
        await commit_in(client, value)
        assert await offset(client) == UNSTABLE
        end(broker, outcome)
        assert await offset(client) == expected
        load_again(broker)
        assert await offset(client) == expected


@on_broker(UNVERIFIED, both=False)
async def test_open_ones_do_not_expire(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await client.ask(commit("g", "orders", {0: 5}), 8)
    await commit_in(client, 10)
    broker.clock.moved_ms += 8 * 86_400_000
    broker.node.groups.expire()
    assert await offset_of(client) == 5
    end(broker, MarkerType.ABORT)
    broker.node.groups.expire()
    assert await offset_of(client) == -1


@on_broker({**UNVERIFIED, "offsets.load.buffer.size": "1"}, both=False)
async def test_an_end_that_comes_while_groups_are_loaded_counts_once(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await client_of(broker)
    await commit_in(client, 10)
    async with reading_slowly(broker, monkeypatch):
        end(broker, MarkerType.COMMIT)
    assert await offset(client) == 10
    await commit_in(client, 11)
    assert await offset(client) == UNSTABLE  # the end was of the former transaction
    end(broker, MarkerType.COMMIT)
    assert await offset(client) == 11


@on_broker(UNVERIFIED, both=False)
async def test_while_groups_are_loaded_ends_are_left_to_the_loader(broker: RunningBroker) -> None:
    """It may not have come to the transaction yet, but to an earlier one of the same producer."""
    client = await client_of(broker)
    await client.ask(commit("g", "orders", {0: 5}), 8)
    await commit_in(client, 10)
    led = broker.node.groups._led_of("g")
    led.is_loading = True
    broker.node.groups.transaction_ended(0, PRODUCER, is_committed=True)
    led.is_loading = False
    assert await offset(client) == UNSTABLE


@on_broker(UNVERIFIED, both=False)
async def test_an_end_in_a_partition_that_is_not_led_here(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await commit_in(client, 10)
    broker.node.groups.resign_partitions([0])
    end(broker, MarkerType.COMMIT)
    broker.node.groups.lead(groups_log(broker))
    assert await offset(client) == 10


@on_broker(UNVERIFIED, both=False)
async def test_a_replaced_producer_commits_nothing(broker: RunningBroker) -> None:
    client = await client_of(broker)
    await commit_in(client, 10, producer_epoch=1)
    assert await commit_in(client, 11) == ErrorCode.INVALID_PRODUCER_EPOCH
    end(broker, MarkerType.COMMIT)
    assert await offset(client) == 10


def test_a_transaction_stays_open_over_a_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with running(tmp_path, UNVERIFIED) as broker:
            client = await client_of(broker)
            await client.ask(commit("g", "orders", {0: 5}), 8)
            await commit_in(client, 10)

    async def after() -> None:
        async with running(tmp_path, UNVERIFIED) as broker:
            client = await broker.client()
            await client.ask(FindCoordinatorRequest(key="g"), 3)
            await until(lambda: not broker.node.groups.is_loading)
            assert (await offset(client), await offset(client, stable=False)) == (UNSTABLE, 5)
            end(broker, MarkerType.COMMIT)
            assert await offset(client) == 10

    asyncio.run(before())
    asyncio.run(after())
