"""ControlledShutdown on a broker that is the controller."""

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k07_controlled_shutdown import ControlledShutdownRequest
from tests.broker.running import RunningBroker, on_broker

NOBODY = 77


@pytest.mark.parametrize("version", [0, 3])
@on_broker(both=False)
async def test_the_only_broker_leads_on(broker: RunningBroker, version: int) -> None:
    client = await broker.peer()
    await client.create_topic("t", 2)
    request = ControlledShutdownRequest(broker_id=broker.broker_id)
    if version:
        request.broker_epoch = broker.node.local.broker_epoch
    answer = await client.ask(request, version)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])  # of one replica: not asked
    assert broker.node.controller.context.shutting_down == {broker.broker_id}


@on_broker(both=False)
async def test_who_is_refused(broker: RunningBroker) -> None:
    client = await broker.peer()

    async def code(broker_id: int, broker_epoch: int) -> int:
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        answered: int = (await client.ask(request, 3)).error_code
        return answered

    assert await code(NOBODY, -1) == ErrorCode.BROKER_NOT_AVAILABLE
    assert await code(NOBODY, 5) == ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, who expects nobody
    assert await code(broker.broker_id, 0) == ErrorCode.STALE_BROKER_EPOCH
    broker.node.controller.lost()
    assert await code(broker.broker_id, -1) == ErrorCode.STALE_CONTROLLER_EPOCH
