"""Transactions on a running broker: the conversations of producers, and what interrupts them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from odradek.broker.coordinators.led_partition import LedPartition
from odradek.broker.core.transactions.shard import TransactionShard
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.broker.requests import delete_topics
from tests.broker.running import RunningBroker, on_broker, running
from tests.broker.transaction_requests import (
    add_offsets,
    add_partitions,
    ask_of_partitions,
    end,
    init_producer,
)
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import count_alive, nothing_collected

from .transacting import (
    ID,
    SETTINGS,
    STATE_TOPIC,
    TOPIC,
    Producer,
    becomes,
    committed,
    described,
    found,
    hold,
    lose_leader,
    producer_of,
    release,
    ring,
    state_of,
)

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
DAY_MS = 86_400_000


# Conversations.


@on_broker(SETTINGS)
async def test_what_is_committed_can_be_read(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    client = producer.client
    await producer.begin(0, 1)
    assert await committed(client) == ([], [])
    assert await state_of(client) == "Ongoing"
    assert await producer.end() == 0
    assert await state_of(client) == "CompleteCommit"
    assert await committed(client) == ([b"in 0"], [])
    assert await committed(client, 1) == ([b"in 1"], [])
    assert await producer.end() == 0  # it did not hear the answer
    assert await producer.end(commits=False) == ErrorCode.INVALID_TXN_STATE
    await producer.begin(1)
    assert await producer.end() == 0
    assert await committed(client, 1) == ([b"in 1", b"in 1"], [])


@on_broker(SETTINGS, both=False)
async def test_readers_are_told_who_aborted(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    assert await producer.end(commits=False) == 0
    assert await state_of(producer.client) == "CompleteAbort"
    assert await committed(producer.client) == ([b"in 0"], [producer.identity[0]])
    assert await producer.end(commits=False) == 0
    assert await producer.end() == ErrorCode.INVALID_TXN_STATE
    await producer.begin(0)
    assert await producer.end() == 0
    assert await committed(producer.client) == ([b"in 0", b"in 0"], [producer.identity[0]])


@on_broker(SETTINGS, both=False)
async def test_a_second_producer_fences_the_first(broker: RunningBroker) -> None:
    first = await producer_of(broker)
    await first.begin(0)
    second = Producer(await broker.client())
    assert await second.init() == CONCURRENT  # the transaction of the first is aborted
    assert await second.init() == 0
    assert second.identity == (first.identity[0], first.identity[1] + 2)
    assert await committed(first.client) == ([b"in 0"], [first.identity[0]])
    assert await first.write(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    fenced, old = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    for version, code in ((0, old), (1, old), (2, fenced), (3, fenced)):
        assert await first.add(0, version=version) == [code]
        assert await first.end(version=version) == code
        asked = add_offsets(ID, first.identity, "g")
        await first.client.ask(FindCoordinatorRequest(key="g"), 3)
        assert (await first.client.ask(asked, version)).error_code == code
    for version, code in ((3, old), (4, fenced), (5, fenced)):
        assert await first.init(first.identity, version=version) == code
    await second.begin(0)
    assert await second.end() == 0


@on_broker(SETTINGS, both=False)
async def test_who_did_not_hear_its_epoch_asks_again(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    before = producer.identity
    assert await producer.init(before) == 0
    after = producer.identity
    assert after == (before[0], before[1] + 1)
    assert await producer.init(before) == 0
    assert producer.identity == after


@on_broker(SETTINGS, both=False)
async def test_all_versions_of_a_conversation(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    for version in range(6):
        assert await producer.init(version=version) == 0
        assert await producer.add(0, 1, version=min(version, 3)) == [0, 0]
        assert await producer.end(version=min(version, 4), commits=version % 2 == 0) == 0


@on_broker(SETTINGS, both=False)
async def test_brokers_ask_of_several_transactions_at_once(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    other = await producer_of(broker, "other")
    await producer.add(0)
    peer = await broker.peer()

    async def codes(version: int, *, topic: str = TOPIC, verify_only: bool) -> list[list[int]]:
        request = ask_of_partitions(ID, producer.identity, topic, 0, 1, verify_only=verify_only)
        request.transactions += ask_of_partitions(
            "other", (other.identity[0], 9), topic, 1, verify_only=verify_only
        ).transactions
        answer = await peer.ask(request, version)
        assert answer.error_code == 0
        assert [each.transactional_id for each in answer.results_by_transaction] == [ID, "other"]
        return [
            [result.partition_error_code for result in each.topic_results[0].results_by_partition]
            for each in answer.results_by_transaction
        ]

    fenced, absent = ErrorCode.PRODUCER_FENCED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in (4, 5):
        asked = await codes(version, verify_only=True)
        assert asked == [[0, ErrorCode.TRANSACTION_ABORTABLE], [fenced]]
        assert await codes(version, topic="x", verify_only=True) == [[absent, absent], [absent]]
    assert await codes(5, verify_only=False) == [[0, 0], [fenced]]
    assert await codes(5, verify_only=True) == [[0, 0], [fenced]]


# States, and a restart in each.


async def ongoing(broker: RunningBroker) -> None:
    await (await producer_of(broker)).begin(0, 1)


async def ended(broker: RunningBroker, *, commits: bool, is_held: bool) -> None:
    producer = await producer_of(broker)
    await producer.begin(0, 1)
    if is_held:
        lose_leader(broker)
    assert await producer.end(commits=commits) == 0


REACHED: dict[str, Callable[[RunningBroker], Awaitable[object]]] = {
    "Empty": producer_of,
    "Ongoing": ongoing,
    "PrepareCommit": lambda broker: ended(broker, commits=True, is_held=True),
    "PrepareAbort": lambda broker: ended(broker, commits=False, is_held=True),
    "CompleteCommit": lambda broker: ended(broker, commits=True, is_held=False),
    "CompleteAbort": lambda broker: ended(broker, commits=False, is_held=False),
}
AFTER_RESTART = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}
OPEN = {"Ongoing": [0, 1], "PrepareCommit": [0], "PrepareAbort": [0]}


@pytest.mark.parametrize("state", REACHED)
def test_every_state_is_described_and_outlives_a_restart(state: str, tmp_path: Path) -> None:
    async def before() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            await REACHED[state](broker)
            client = await broker.client()
            assert await state_of(client) == state
            found = await described(client)
            assert found.transaction_timeout_ms == 60_000
            assert (found.transaction_start_time_ms > 0) is (state != "Empty")
            assert [(topic.topic, topic.partitions) for topic in found.topics] == [
                (TOPIC, OPEN[state]) for _ in range(state in OPEN)
            ]

    async def after() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            await until(lambda: bool(broker.node.transactions._shards))
            await until(lambda: not broker.node.transactions.is_loading)
            client = await broker.client()
            expected = AFTER_RESTART.get(state, state)
            await becomes(broker, expected)
            values, aborted = await committed(client)
            assert values == ([] if state in ("Empty", "Ongoing") else [b"in 0"])
            assert len(aborted) == expected.endswith("Abort")

    asyncio.run(before())
    asyncio.run(after())


@on_broker(SETTINGS, both=False)
async def test_until_its_markers_are_written_a_producer_has_to_wait(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0, 1)
    held = hold(broker)
    assert await producer.end() == 0
    assert await producer.end() == CONCURRENT
    assert await producer.end(commits=False) == CONCURRENT
    assert await producer.add(0) == [CONCURRENT]
    assert await producer.init() == CONCURRENT
    assert await committed(producer.client, 1) == ([b"in 1"], [])
    release(held)
    await until(lambda: held.log.high_watermark == held.log.log_end_offset)
    await producer.begin(0)
    assert await producer.end() == 0


@on_broker(SETTINGS, both=False)
async def test_nothing_is_answered_before_the_decision_is_committed(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    held = hold(broker, STATE_TOPIC)
    other = Producer(await broker.client())
    waiting = asyncio.create_task(producer.end())
    await until(lambda: held.log.high_watermark < held.log.log_end_offset)
    assert await other.init() == CONCURRENT
    assert await state_of(other.client) == "Ongoing"
    assert await committed(other.client) == ([], [])
    assert not waiting.done()
    release(held)
    assert await waiting == 0
    assert await committed(other.client) == ([b"in 0"], [])


@on_broker(SETTINGS, both=False)
async def test_who_waits_hears_that_another_coordinates(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    held = hold(broker, STATE_TOPIC)
    waiting = asyncio.create_task(producer.end())
    await until(lambda: held.log.high_watermark < held.log.log_end_offset)
    broker.node.transactions.resign_partitions([0])
    assert await waiting == ErrorCode.NOT_COORDINATOR
    assert await producer.end() == ErrorCode.NOT_COORDINATOR
    assert (await described(producer.client)).error_code == ErrorCode.NOT_COORDINATOR


@on_broker(SETTINGS, both=False)
async def test_nothing_of_a_partition_that_another_coordinates_is_left_to_the_collector(
    broker: RunningBroker,
) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    with nothing_collected():
        before = count_alive(LedPartition, TransactionShard)
        broker.node.transactions.resign_partitions([0])
        assert count_alive(LedPartition, TransactionShard) == before - 2


@on_broker(SETTINGS, both=False)
async def test_what_is_loaded_counts_once_it_is_committed(broker: RunningBroker) -> None:
    """The leader before may have crashed with the decision in no other log: no marker goes out."""
    producer = await producer_of(broker)
    await producer.begin(0)
    held = hold(broker, STATE_TOPIC)
    waiting = asyncio.create_task(producer.end())
    await until(lambda: held.log.high_watermark < held.log.log_end_offset)
    transactions, client = broker.node.transactions, await broker.client()
    transactions.resign_partitions([0])
    assert await waiting == ErrorCode.NOT_COORDINATOR
    transactions.lead(held)
    await until(lambda: bool([*held.waiters]))  # it has read everything, and waits for followers
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    listed = await client.ask(ListTransactionsRequest(), 1)
    assert (listed.error_code, listed.transaction_states) == (loading, [])
    assert await producer.end() == loading
    assert (await described(client)).error_code == loading
    assert await committed(client) == ([], [])
    release(held)
    await until(lambda: not transactions.is_loading)
    await becomes(broker, "CompleteCommit")
    assert await committed(client) == ([b"in 0"], [])


@on_broker(SETTINGS, both=False)
async def test_leadership_is_lost_while_what_was_loaded_is_not_committed(
    broker: RunningBroker,
) -> None:
    producer = await producer_of(broker)
    held = hold(broker, STATE_TOPIC)
    waiting = asyncio.create_task(producer.add(0))
    await until(lambda: held.log.high_watermark < held.log.log_end_offset)
    transactions = broker.node.transactions
    for _ in range(2):
        transactions.resign_partitions([0])
        transactions.lead(held)
    assert await waiting == [ErrorCode.NOT_COORDINATOR]
    transactions.resign_partitions([0])
    release(held)
    transactions.lead(held)
    await until(lambda: not transactions.is_loading)
    assert await state_of(producer.client) == "Ongoing"


# Time.


@on_broker(SETTINGS, both=False)
async def test_what_takes_too_long_is_aborted(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    broker.clock.moved_ms += 59_000
    ring(broker)
    assert await state_of(producer.client) == "Ongoing"
    broker.clock.moved_ms += 11_000
    ring(broker)
    assert await state_of(producer.client) == "CompleteAbort"
    assert await committed(producer.client) == ([b"in 0"], [producer.identity[0]])
    assert await producer.end() == ErrorCode.PRODUCER_FENCED
    assert await producer.write(b"late") == ErrorCode.INVALID_PRODUCER_EPOCH


@on_broker(SETTINGS, both=False)
async def test_an_id_that_is_not_used_is_forgotten(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    broker.clock.moved_ms += 8 * DAY_MS
    ring(broker)
    state = await described(producer.client)
    assert state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert await producer.add(0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    before = producer.identity
    assert await producer.init(before) == 0
    assert producer.identity[0] > before[0]


# Topics that go.


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_a_deleted_topic_is_left_out(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.client.create_topic("doomed")
    await producer.begin(0)
    assert await producer.add(0, topic="doomed") == [0]
    await producer.client.ask(delete_topics(6, "doomed"), 6)
    await until(lambda: "doomed" not in broker.node.metadata.topics)
    assert await producer.end() == 0
    assert await state_of(producer.client) == "CompleteCommit"
    assert await committed(producer.client) == ([b"in 0"], [])


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_a_topic_of_which_no_controller_has_told_yet_is_no_deleted_one(
    broker: RunningBroker,
) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    metadata = broker.node.metadata
    known = metadata.topics.pop(TOPIC)
    metadata.is_told = False
    assert await producer.end() == 0
    assert (await described(producer.client)).transaction_state == "PrepareCommit"
    metadata.topics[TOPIC] = known
    metadata.is_told = True
    await becomes(broker, "CompleteCommit")
    assert await committed(producer.client) == ([b"in 0"], [])


@on_broker(SETTINGS, both=False)
async def test_a_deleted_topic_of_transactions_begins_anew(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    await producer.begin(0)
    await producer.client.ask(delete_topics(6, STATE_TOPIC), 6)
    await until(lambda: STATE_TOPIC not in broker.node.metadata.topics)
    assert await producer.end() == ErrorCode.NOT_COORDINATOR
    await found(broker, producer.client)
    assert await producer.end() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await producer.init() == 0


# Who is no coordinator, and what is no request.


@on_broker(SETTINGS, both=False)
async def test_a_broker_that_coordinates_nothing(broker: RunningBroker) -> None:
    client: Client = await broker.client()
    await client.create_topic(TOPIC)
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    nobody = ErrorCode.NOT_COORDINATOR
    producer = Producer(client)
    producer.identity = 7, 0
    assert await producer.init() == nobody
    assert await producer.add(0) == [nobody]
    assert await producer.end() == nobody
    assert (await client.ask(add_offsets(ID, (7, 0), "g"), 3)).error_code == nobody
    assert (await described(client)).error_code == nobody
    listed = await client.ask(ListTransactionsRequest(), 1)
    assert (listed.error_code, listed.transaction_states) == (0, [])


@on_broker(SETTINGS, both=False)
async def test_empty_ids(broker: RunningBroker) -> None:
    client = (await producer_of(broker)).client
    invalid = ErrorCode.INVALID_REQUEST
    assert (await client.ask(init_producer(""), 5)).error_code == invalid
    added = await client.ask(add_partitions("", (7, 0), TOPIC, 0), 3)
    (result,) = added.results_by_topic_v3_and_below[0].results_by_partition
    assert result.partition_error_code == invalid
    assert (await client.ask(add_offsets("", (7, 0), "g"), 3)).error_code == invalid
    assert (await client.ask(end("", (7, 0)), 3)).error_code == invalid
    assert (await described(client, "")).error_code == invalid


@on_broker(SETTINGS, both=False)
async def test_ids_are_listed_by_filters(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    client = producer.client
    idle = await producer_of(broker, "idle")
    await producer.begin(0)
    broker.clock.moved_ms += 5_000

    async def ids(**filters: object) -> tuple[list[str], list[str]]:
        request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
        answer = await client.ask(request, 1)
        names = [each.transactional_id for each in answer.transaction_states]
        return names, answer.unknown_state_filters

    assert await ids() == ([ID, "idle"], [])
    assert await ids(state_filters=["Ongoing", "Odd", "Odd"]) == ([ID], ["Odd"])
    assert await ids(state_filters=["Odd"]) == ([], ["Odd"])
    assert await ids(producer_id_filters=[idle.identity[0]]) == (["idle"], [])
    assert await ids(duration_filter=4_000, state_filters=["Ongoing"]) == ([ID], [])
    assert await ids(duration_filter=60_000, state_filters=["Ongoing"]) == ([], [])
    several = DescribeTransactionsRequest(transactional_ids=["idle", "none", "idle", ID])
    states = (await client.ask(several, 0)).transaction_states
    assert [state.error_code for state in states] == [0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, 0]


@on_broker({**SETTINGS, "transaction.max.timeout.ms": "100000"}, both=False)
async def test_timeouts_that_are_refused(broker: RunningBroker) -> None:
    producer = await producer_of(broker)
    for timeout_ms in (-1, 0, 100_001):
        code = await producer.init(timeout_ms=timeout_ms)
        assert code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await producer.init(timeout_ms=100_000) == 0
