"""AllocateProducerIds 0: the controller allocates a block of producer ids to a broker."""

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
    """Allocate a block; if the answer is lost, its ids are never used."""
    broker_id, broker_epoch = request.broker_id, request.broker_epoch
    try:
        block = await node.controller.allocate_producer_ids(broker_id, broker_epoch)
    except Refused as refused:
        return AllocateProducerIdsResponse(error_code=refused.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
