"""A batch begins a transaction in a partition only if the transaction's coordinator knows of it."""

import asyncio

import pytest

from odradek.broker.core.effects import Producer
from odradek.broker.transactions.verifier import NotVerified, Question
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import PartitionProduceResponse
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.group_requests import txn_commit
from tests.broker.requests import change_configs
from tests.broker.running import RunningBroker, on_broker
from tests.broker.transaction_requests import (
    Identity,
    add_offsets,
    add_partitions,
    end,
    init_producer,
    produce_in_transaction,
    write_markers,
)
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.messages import batch_of

SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "num.partitions": "2",
}
ABORTABLE, IN_NO_STATE = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE
BROKER, SET = 4, 0


async def begin(broker: RunningBroker, client: Client) -> Identity:
    """A producer with the transactional id "x"; the topic t has two partitions."""
    await client.create_topic("t", 2)
    for key_type in (0, 1):
        await client.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type), 4)
    await until(lambda: not (broker.node.transactions.is_loading or broker.node.groups.is_loading))
    made = await client.ask(init_producer("x"), 4)
    assert made.error_code == 0
    return made.producer_id, made.producer_epoch


async def write(
    client: Client, producer: Identity, partition: int = 0, sequence: int = 0, version: int = 11
) -> PartitionProduceResponse:
    request = produce_in_transaction("x", producer, "t", partition, sequence=sequence)
    result: PartitionProduceResponse = (
        (await client.ask(request, version)).responses[0].partition_responses[0]
    )
    return result


def offsets_of(producer: Identity) -> TxnOffsetCommitRequest:
    request = txn_commit("g", "t", {0: 7}, producer_id=producer[0], producer_epoch=producer[1])
    request.transactional_id = "x"
    return request


def log_end(broker: RunningBroker, partition: int = 0) -> int:
    return broker.node.replicas.partitions["t", partition].log.log_end_offset


@pytest.mark.parametrize(("version", "code"), [(10, IN_NO_STATE), (11, ABORTABLE)])
@on_broker(SETTINGS, both=False)
async def test_a_partition_that_was_not_added(
    broker: RunningBroker, version: int, code: ErrorCode
) -> None:
    client = await broker.client()
    producer = await begin(broker, client)
    assert (await write(client, producer, version=version)).error_code == code
    await client.ask(add_partitions("x", producer, "t", 0), 3)
    assert (await write(client, producer, version=version)).error_code == 0
    assert (await write(client, producer, 1, version=version)).error_code == code
    assert (log_end(broker), log_end(broker, 1)) == (1, 0)


@pytest.mark.parametrize("version", [11, 12])
@on_broker({**SETTINGS, "odradek.transaction.version": "2"}, both=False)
async def test_nothing_of_an_answer_is_left_to_the_collector(
    broker: RunningBroker, version: int
) -> None:
    client = await broker.client()
    producer_id, epoch = await begin(broker, client)
    async with nothing_left(NotVerified):
        stranger = await write(client, (producer_id + 1, epoch), version=version)
        assert stranger.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@on_broker(SETTINGS, both=False)
async def test_after_the_end(broker: RunningBroker) -> None:
    """The batch that comes late opens no transaction that nobody would end."""
    client = await broker.client()
    producer = await begin(broker, client)
    await client.ask(add_partitions("x", producer, "t", 0), 3)
    assert (await write(client, producer)).error_code == 0
    assert (await client.ask(end("x", producer), 3)).error_code == 0
    assert (await write(client, producer, sequence=1)).error_code == ABORTABLE
    stable = (await client.fetch("t")).last_stable_offset
    assert stable == log_end(broker) == 2


@on_broker(SETTINGS, both=False)
async def test_an_older_epoch_and_a_stranger(broker: RunningBroker) -> None:
    client = await broker.client()
    producer_id, epoch = await begin(broker, client)
    newer = (await client.ask(init_producer("x"), 4)).producer_epoch
    assert newer == epoch + 1
    fenced = await write(client, (producer_id, epoch))
    assert fenced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    stranger = await write(client, (producer_id + 1, 0))
    assert stranger.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@on_broker(SETTINGS, both=False)
async def test_it_can_be_switched_off_while_the_broker_runs(broker: RunningBroker) -> None:
    client = await broker.client()
    producer = await begin(broker, client)
    name = "transaction.partition.verification.enable"
    changed = await client.ask(change_configs(BROKER, "", (name, SET, "false")), 1)
    assert changed.responses[0].error_code == 0
    assert (await write(client, producer)).error_code == 0


@on_broker(SETTINGS, both=False)
async def test_offsets_of_a_group_that_was_not_added(broker: RunningBroker) -> None:
    client = await broker.client()
    producer = await begin(broker, client)
    request = offsets_of(producer)
    for version, code in ((3, IN_NO_STATE), (4, ABORTABLE)):
        refused = await client.ask(request, version)
        assert refused.topics[0].partitions[0].error_code == code
    await client.ask(add_offsets("x", producer, "g"), 3)
    assert (await client.ask(request, 3)).topics[0].partitions[0].error_code == 0


class Elsewhere:
    """The coordinator, if it is another broker: it answers when the test does."""

    def __init__(self, broker: RunningBroker) -> None:
        self.questions: list[Question] = []
        self.answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        broker.node.verifier.ask = self.ask  # type: ignore[method-assign]

    def ask(self, question: Question) -> "asyncio.Future[ErrorCode]":
        self.questions.append(question)
        return self.answer


@on_broker(SETTINGS)
async def test_the_connection_waits_for_another_broker_s_word(broker: RunningBroker) -> None:
    client, other = await broker.client(), await broker.client()
    producer = await begin(broker, client)
    coordinator = Elsewhere(broker)
    writing = asyncio.create_task(write(client, producer))
    await until(lambda: bool(coordinator.questions))
    assert coordinator.questions == [Question("x", Producer(*producer), ("t", 0))]
    await other.append("t", batch_of(b"meanwhile"))
    coordinator.answer.set_result(ErrorCode.NONE)
    result = await writing
    assert (result.error_code, result.base_offset) == (0, 1)
    assert (await write(client, producer, sequence=1)).base_offset == 2
    assert len(coordinator.questions) == 1  # the transaction is open by then


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ABORTABLE, ABORTABLE),
    ],
)
@on_broker(SETTINGS, both=False)
async def test_what_another_broker_may_say(
    broker: RunningBroker, answer: ErrorCode, code: ErrorCode
) -> None:
    client = await broker.client()
    producer = await begin(broker, client)
    Elsewhere(broker).answer.set_result(answer)
    assert (await write(client, producer)).error_code == code
    assert log_end(broker) == 0


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ABORTABLE, IN_NO_STATE),
    ],
)
@on_broker(SETTINGS, both=False)
async def test_what_another_broker_may_say_of_offsets(
    broker: RunningBroker, answer: ErrorCode, code: ErrorCode
) -> None:
    client = await broker.client()
    producer = await begin(broker, client)
    Elsewhere(broker).answer.set_result(answer)
    request = offsets_of(producer)
    assert (await client.ask(request, 3)).topics[0].partitions[0].error_code == code


@on_broker(SETTINGS, both=False)
async def test_batches_keep_their_order_when_the_first_is_not_verified(
    broker: RunningBroker,
) -> None:
    """The partition does not know the producer, and would take any sequence."""
    client, other = await broker.client(), await broker.client()
    producer = await begin(broker, client)
    coordinator = Elsewhere(broker)
    coordinator.answer.set_result(ErrorCode.NETWORK_EXCEPTION)
    assert (await write(client, producer)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.answer = asyncio.get_running_loop().create_future()
    coordinator.answer.set_result(ErrorCode.NONE)
    later = await write(client, producer, sequence=1)
    assert later.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    later = await write(other, producer, sequence=1)
    assert later.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await write(client, producer)).error_code == 0
    assert (await write(client, producer, sequence=1)).error_code == 0


@on_broker(SETTINGS, both=False)
async def test_a_marker_that_comes_first(broker: RunningBroker) -> None:
    """What the coordinator has said before does not count any more."""
    client, admin = await broker.client(), await broker.client()
    producer = await begin(broker, client)
    coordinator = Elsewhere(broker)
    writing = asyncio.create_task(write(client, producer))
    await until(lambda: bool(coordinator.questions))
    marked = await admin.ask(write_markers(producer, "t", 0, commits=False), 1)
    assert marked.markers[0].topics[0].partitions[0].error_code == 0
    coordinator.answer.set_result(ErrorCode.NONE)
    assert (await writing).error_code == IN_NO_STATE
    assert log_end(broker) == 1


@on_broker(SETTINGS, both=False)
async def test_a_marker_of_a_later_epoch_that_comes_first(broker: RunningBroker) -> None:
    """The producer is fenced, which it can recover from."""
    client, admin = await broker.client(), await broker.client()
    producer = await begin(broker, client)
    coordinator = Elsewhere(broker)
    offsets = offsets_of(producer)
    writing = asyncio.create_task(write(client, producer))
    committing = asyncio.create_task((await broker.client()).ask(offsets, 3))
    await until(lambda: len(coordinator.questions) == 2)
    later = producer[0], producer[1] + 1
    for topic in ("t", "__consumer_offsets"):
        await admin.ask(write_markers(later, topic, 0, commits=False), 1)
    coordinator.answer.set_result(ErrorCode.NONE)
    fenced = ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await writing).error_code == fenced
    assert (await committing).topics[0].partitions[0].error_code == fenced
    # It is known at once from then on.
    assert (await write(client, producer)).error_code == fenced
    assert (await client.ask(offsets, 3)).topics[0].partitions[0].error_code == fenced
    assert len(coordinator.questions) == 2


@on_broker(SETTINGS, both=False)
async def test_a_client_that_hangs_up_leaves_no_guard(broker: RunningBroker) -> None:
    client = await broker.client()
    producer = await begin(broker, client)
    coordinator = Elsewhere(broker)
    request = offsets_of(producer)
    client.send(request, 3)
    await until(lambda: bool(coordinator.questions))
    guards = broker.node.replicas.partitions["__consumer_offsets", 0].verification_guards
    assert guards._by_producer
    await client.close()
    await until(lambda: not guards._by_producer)


@on_broker(SETTINGS, both=False)
async def test_a_marker_that_comes_before_the_offsets(broker: RunningBroker) -> None:
    client, admin = await broker.client(), await broker.client()
    producer = await begin(broker, client)
    coordinator = Elsewhere(broker)
    request = offsets_of(producer)
    committing = asyncio.create_task(client.ask(request, 3))
    await until(lambda: bool(coordinator.questions))
    await admin.ask(write_markers(producer, "__consumer_offsets", 0, commits=False), 1)
    coordinator.answer.set_result(ErrorCode.NONE)
    assert (await committing).topics[0].partitions[0].error_code == IN_NO_STATE
