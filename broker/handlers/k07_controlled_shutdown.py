"""ControlledShutdown 0-3: the controller moves leadership away from a broker that will stop.

The error codes are Kafka's, and differ from those of other requests to the controller: a broker
that is not the controller answers STALE_CONTROLLER_EPOCH. An unknown broker that sends its epoch
gets UNKNOWN_SERVER_ERROR, because Kafka does not expect that case.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k07_controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

from ..core.controller import procedures
from ..net.call import Call
from ..node import Node

EPOCH_UNKNOWN = -1


async def handle(
    request: ControlledShutdownRequest, call: Call, node: Node
) -> ControlledShutdownResponse:
    """Move leadership away; answer the partitions that the broker still leads."""
    broker_id, broker_epoch = request.broker_id, request.broker_epoch
    try:
        remaining = await node.controller.ask(
            lambda context: procedures.shut_down(context, broker_id, broker_epoch)
        )
    except Refused as refused:
        return ControlledShutdownResponse(error_code=_code(refused.code, broker_epoch))
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=topic, partition_index=partition)
            for topic, partition in remaining
        ]
    )


def _code(code: ErrorCode, broker_epoch: int) -> ErrorCode:
    if code == ErrorCode.NOT_CONTROLLER:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if code == ErrorCode.BROKER_NOT_AVAILABLE and broker_epoch != EPOCH_UNKNOWN:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code
