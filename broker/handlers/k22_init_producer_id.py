"""InitProducerId 0-5: a producer id for an idempotent producer.

A transactional id is refused as INVALID_REQUEST: transactions are not served yet.
"""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from ..dispatcher import Call
from ..node import Node


async def handle(request: InitProducerIdRequest, call: Call, node: Node) -> InitProducerIdResponse:
    """Hand out the next id, with epoch 0."""
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=await node.producer_ids.next_id(), producer_epoch=0)
