"""InitProducerId 0-5: a producer id for an idempotent producer.

A transactional id is refused as INVALID_REQUEST: transactions are not supported yet.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from ..net.call import Call
from ..node import Node

NONE: Final = -1


async def handle(request: InitProducerIdRequest, call: Call, node: Node) -> InitProducerIdResponse:
    """Assign the next producer id, with epoch 0."""
    half = (request.producer_id == NONE) is not (request.producer_epoch == NONE)
    if request.transactional_id is not None or half:
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_id=NONE, producer_epoch=NONE
        )
    try:
        producer_id = await node.producer_ids.next_id()
    except Refused as refused:
        return InitProducerIdResponse(
            error_code=refused.code, producer_id=NONE, producer_epoch=NONE
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
