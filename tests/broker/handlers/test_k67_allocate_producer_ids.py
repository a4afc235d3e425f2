"""AllocateProducerIds on a broker that is the controller."""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from tests.broker.running import RunningBroker, on_broker

NOBODY = 77


@on_broker(both=False)
async def test_blocks_of_a_thousand(broker: RunningBroker) -> None:
    client, local = await broker.peer(), broker.node.local
    request = AllocateProducerIdsRequest(
        broker_id=broker.broker_id, broker_epoch=local.broker_epoch
    )
    starts = []
    for _ in range(3):
        answer = await client.ask(request, 0)
        assert (answer.error_code, answer.producer_id_len) == (0, 1000)
        starts.append(answer.producer_id_start)
    assert [start - starts[0] for start in starts] == [0, 1000, 2000]


@on_broker(both=False)
async def test_who_gets_none(broker: RunningBroker) -> None:
    client = await broker.peer()

    async def code(broker_id: int, broker_epoch: int) -> int:
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        answer = await client.ask(request, 0)
        assert (answer.producer_id_start, answer.producer_id_len) == (0, 0)
        answered: int = answer.error_code
        return answered

    epoch = broker.node.local.broker_epoch
    assert await code(NOBODY, epoch) == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert await code(broker.broker_id, epoch - 1) == ErrorCode.STALE_BROKER_EPOCH
    assert await code(broker.broker_id, epoch + 1) == ErrorCode.STALE_BROKER_EPOCH
    broker.node.controller.lost()
    assert await code(broker.broker_id, epoch) == ErrorCode.NOT_CONTROLLER
