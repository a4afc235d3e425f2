from odradek.broker.handlers.k20003_describe_transaction_journal import IDS_MAX
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k20003_describe_transaction_journal import (
    DescribedTransactionJournal,
    DescribeTransactionJournalRequest,
    DescribeTransactionJournalResponse,
)
from tests.broker.running import RunningBroker, on_broker
from tests.broker.transaction_requests import add_partitions, end, init_producer, write_markers
from tests.support.awaiting import until
from tests.support.client import Client

SETTINGS = {"transaction.state.log.num.partitions": "1"}
NAME = "billing-1"


async def journals(client: Client, *names: str) -> list[DescribedTransactionJournal]:
    answer = await client.ask(DescribeTransactionJournalRequest(transactional_ids=[*names]), 0)
    assert isinstance(answer, DescribeTransactionJournalResponse)
    return answer.transactions


async def journal(client: Client) -> DescribedTransactionJournal:
    (told,) = await journals(client, NAME)
    return told


async def coordinated(broker: RunningBroker) -> Client:
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(coordinator_keys=[NAME], key_type=1), 4)
    await until(lambda: not broker.node.transactions.is_loading)
    return client


@on_broker(SETTINGS, both=False)
async def test_a_transaction_is_told_until_its_last_marker(broker: RunningBroker) -> None:
    client = await coordinated(broker)
    await client.create_topic("t", 2)
    made = await client.ask(init_producer(NAME), 4)
    producer = (made.producer_id, made.producer_epoch)
    await client.ask(add_partitions(NAME, producer, "t", 0, 1), 3)
    told = await journal(client)
    assert (told.error_code, told.transactional_id) == (0, NAME)
    assert (told.transaction_state, told.pending_state) == ("Ongoing", None)
    assert (told.producer_id, told.producer_epoch) == producer
    assert (told.partition_count, told.missing_markers) == (2, [])
    assert told.transaction_start_time_ms > 0 and told.transaction_timeout_ms == 60_000
    assert [entry.event for entry in told.entries] == ["initialized", "began"]
    assert all(entry.timestamp_ms > 0 for entry in told.entries)
    assert told.entries[0].client.endswith(" at 127.0.0.1")

    # A later coordinator has written into t-1: its leader refuses our marker.
    later = write_markers(producer, "t", 1, coordinator_epoch=100)
    await client.ask(later, 1)
    await client.ask(end(NAME, producer), 3)
    told = await journal(client)
    assert (told.transaction_state, told.pending_state) == ("PrepareCommit", "CompleteCommit")
    (missing,) = told.missing_markers
    assert (missing.topic, missing.partition, missing.leader_id) == ("t", 1, 0)
    assert [entry.event for entry in told.entries[2:]] == ["commit", "marker-refused"]
    assert told.entries[-1].reason == "t-1: TRANSACTION_COORDINATOR_FENCED"


@on_broker(SETTINGS, both=False)
async def test_who_is_not_there_has_no_journal(broker: RunningBroker) -> None:
    client = await coordinated(broker)
    await client.ask(end(NAME, (0, 0)), 3)
    told = await journal(client)
    assert (told.error_code, told.entries) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, [])


@on_broker(
    {
        **SETTINGS,
        "transactional.id.expiration.ms": "1",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
    },
    both=False,
)
async def test_an_expired_id_is_dead(broker: RunningBroker) -> None:
    client = await coordinated(broker)
    await client.ask(init_producer(NAME), 4)
    await until(lambda: not list(broker.node.transactions.shard_of(NAME).ids))
    told = await journal(client)
    assert (told.error_code, told.transaction_state) == (0, "Dead")
    assert [entry.event for entry in told.entries] == ["initialized", "expired"]


@on_broker(both=False)
async def test_who_does_not_coordinate_says_so(broker: RunningBroker) -> None:
    client = await broker.client()
    assert (await journal(client)).error_code == ErrorCode.NOT_COORDINATOR


@on_broker(both=False)
async def test_ids_are_bounded(broker: RunningBroker) -> None:
    client = await broker.client()
    found = await journals(client, *(f"id-{n}" for n in range(IDS_MAX + 1)))
    assert [j.error_code == ErrorCode.INVALID_REQUEST for j in found] == [False] * IDS_MAX + [True]
