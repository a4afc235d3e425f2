"""AllocateProducerIds 0: the controller gives a broker a block of producer ids."""

from odradek.protocol.errors import Refused
from odradek.protocol.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

from ..net.call import Call
from ..node import Node


async def handle(
    request: AllocateProducerIdsRequest, call: Call, node: Node
) -> AllocateProducerIdsResponse:
    """The ids are lost if the answer is."""
    broker_id, broker_epoch = request.broker_id, request.broker_epoch
    try:
        block = await node.controller.allocate_producer_ids(broker_id, broker_epoch)
    except Refused as refused:
        return AllocateProducerIdsResponse(error_code=refused.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
