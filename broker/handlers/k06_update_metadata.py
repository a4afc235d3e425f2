"""UpdateMetadata 0-8: the controller updates the metadata that this broker serves to clients."""

from odradek.protocol.errors import Refused
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

from ..member.control_messages import (
    FULL_UPDATE,
    MORE_TO_COME_TAG,
    live_brokers,
    sender_of,
    update_metadata_states,
)
from ..net.call import Call
from ..node import Node


async def handle(request: UpdateMetadataRequest, call: Call, node: Node) -> UpdateMetadataResponse:
    """Apply the update."""
    brokers, states = live_brokers(request, call.version), update_metadata_states(request)
    try:
        await node.control.update_metadata(
            sender_of(request),
            brokers,
            states,
            is_full=request.type == FULL_UPDATE,
            more_to_come=MORE_TO_COME_TAG in (request.tagged_fields or ()),
        )
    except Refused as refused:
        return UpdateMetadataResponse(error_code=refused.code)
    return UpdateMetadataResponse()
