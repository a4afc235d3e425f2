"""AddOffsetsToTxn."""

from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.broker.running import RunningBroker, on_broker
from tests.broker.transaction_requests import add_offsets, init_producer
from tests.support.client import Client

TRANSACTION = 1


async def init(client: Client, transactional_id: str) -> tuple[int, int]:
    """A new producer's id and epoch."""
    find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    (found,) = (await client.ask(find, 4)).coordinators
    assert found.error_code == 0
    answer = await client.ask(init_producer(transactional_id), 4)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


@on_broker({"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"})
async def test_the_first_group_of_a_cluster(broker: RunningBroker) -> None:
    """A producer says of which group it will commit offsets before it looks for its coordinator."""
    client = await broker.client()
    producer = await init(client, "t")
    assert (await client.ask(add_offsets("t", producer, "group"), 3)).error_code == 0
