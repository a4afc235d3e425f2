"""A transactional producer that speaks to a running broker, and what holds up its markers."""

from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import NO_LEADER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from odradek.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.broker.running import RunningBroker
from tests.broker.transaction_requests import (
    NOBODY,
    Identity,
    add_partitions,
    end,
    init_producer,
    produce_in_transaction,
)
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import records_in

ID = "id"
TOPIC = "t"
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
READ_COMMITTED = 1
STATE_TOPIC = "__transaction_state"


class Producer:
    """One producer of a transactional id; every request must be answered with a code."""

    def __init__(self, client: Client, transactional_id: str = ID, *, timestamp: int = 0) -> None:
        self.client = client
        self.timestamp = timestamp
        self.transactional_id = transactional_id
        self.identity: Identity = NOBODY
        self.sequences = [0, 0]

    async def init(
        self, claimed: Identity = NOBODY, *, version: int = 5, timeout_ms: int = 60_000
    ) -> int:
        """Become the producer of the id; the code."""
        request = init_producer(self.transactional_id, claimed, timeout_ms=timeout_ms)
        answer = await self.client.ask(request, version)
        if answer.error_code == 0:
            self.identity = answer.producer_id, answer.producer_epoch
            self.sequences = [0, 0]
        code: int = answer.error_code
        return code

    async def add(self, *partitions: int, version: int = 3, topic: str = TOPIC) -> list[int]:
        """Add partitions to the transaction; the code of each."""
        request = add_partitions(self.transactional_id, self.identity, topic, *partitions)
        answer = await self.client.ask(request, version)
        (found,) = answer.results_by_topic_v3_and_below
        return [result.partition_error_code for result in found.results_by_partition]

    async def write(self, value: bytes, partition: int = 0) -> int:
        """Produce one record in the transaction; the code."""
        request = produce_in_transaction(
            self.transactional_id,
            self.identity,
            TOPIC,
            partition,
            sequence=self.sequences[partition],
            value=value,
            timestamp=self.timestamp,
        )
        answer = await self.client.ask(request, 11)
        code: int = answer.responses[0].partition_responses[0].error_code
        self.sequences[partition] += code == 0
        return code

    async def end(self, *, commits: bool = True, version: int = 4) -> int:
        """End the transaction; the code."""
        request = end(self.transactional_id, self.identity, commits=commits)
        answer = await self.client.ask(request, version)
        code: int = answer.error_code
        return code

    async def begin(self, *partitions: int) -> None:
        """Begin a transaction with one record in each partition; it must succeed."""
        assert await self.add(*partitions) == [0] * len(partitions)
        for partition in partitions:
            assert await self.write(b"in %d" % partition, partition) == 0


async def found(broker: RunningBroker, client: Client) -> None:
    """Have the broker coordinate transactions."""
    await client.ask(FindCoordinatorRequest(coordinator_keys=[ID], key_type=1), 4)
    await until(lambda: STATE_TOPIC in broker.node.metadata.topics)
    await until(lambda: not broker.node.transactions.is_loading)


async def producer_of(broker: RunningBroker, transactional_id: str = ID) -> Producer:
    """A producer that is initialized; the topic has two partitions."""
    client = await broker.client()
    if TOPIC not in broker.node.metadata.topics:
        await client.create_topic(TOPIC, 2)
    await found(broker, client)
    now_ms = broker.clock.wall_ms()  # with old records the first marker would begin a segment
    producer = Producer(client, transactional_id, timestamp=now_ms)
    assert await producer.init() == 0
    return producer


async def committed(client: Client, partition: int = 0) -> tuple[list[bytes], list[int]]:
    """What a reader of committed records sees in a partition, and who aborted.

    The readers leave out what was aborted, which a broker only names.
    """
    answer = await client.fetch(TOPIC, partition=partition, isolation_level=READ_COMMITTED)
    aborted = [each.producer_id for each in answer.aborted_transactions or ()]
    return [value for _, value in records_in(answer.records) if value.startswith(b"in")], aborted


async def described(client: Client, transactional_id: str = ID) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = (await client.ask(request, 0)).transaction_states
    assert isinstance(state, TransactionState)
    return state


async def state_of(client: Client, transactional_id: str = ID) -> str:
    """The state in which DescribeTransactions and ListTransactions see an id."""
    state = await described(client, transactional_id)
    assert state.error_code == 0, ErrorCode(state.error_code).name
    listed = await client.ask(ListTransactionsRequest(), 1)
    names = {each.transactional_id: each.transaction_state for each in listed.transaction_states}
    assert names[transactional_id] == state.transaction_state
    return state.transaction_state


async def becomes(broker: RunningBroker, state: str) -> None:
    """Return once the id is in this state."""
    shard = broker.node.transactions.shard_of(ID)
    await until(lambda: shard.describe(ID).known.state.kafka_name == state)


def hold(broker: RunningBroker, topic: str = TOPIC, partition: int = 0) -> Partition:
    """What is appended is not committed: a follower is in sync that fetches nothing."""
    held = broker.node.replicas.partitions[topic, partition]
    held.become(held.state._replace(isr=(0, 9), replicas=(0, 9)), 0)
    return held


def lose_leader(broker: RunningBroker, partition: int = 0) -> None:
    """As far as the broker knows, a partition has no leader."""
    topic = broker.node.metadata.topics[TOPIC]
    state = topic.find(partition)
    assert state is not None
    topic.put(state._replace(leader=NO_LEADER))


def release(held: Partition) -> None:
    """The follower has left the in-sync set."""
    held.become(held.state._replace(isr=(0,), replicas=(0,)), 0)


def ring(broker: RunningBroker) -> None:
    """Look at all ids now: their timer knows nothing of a clock that was moved."""
    shards = broker.node.transactions._shards
    assert shards is not None
    for led in shards.all():
        for key in list(led.machine.ids):
            led.run(key, led.machine.on_time(key, led.moment()))
