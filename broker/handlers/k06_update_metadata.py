"""UpdateMetadata 0-8: the controller tells this broker what to tell clients."""

from odradek.protocol.errors import Refused
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

from ..call import Call
from ..control_messages import live_brokers, sender_of, update_metadata_states
from ..node import Node


async def handle(request: UpdateMetadataRequest, call: Call, node: Node) -> UpdateMetadataResponse:
    """Take it over."""
    brokers, states = live_brokers(request, call.version), update_metadata_states(request)
    try:
        await node.control.update_metadata(sender_of(request), brokers, states)
    except Refused as refused:
        return UpdateMetadataResponse(error_code=refused.code)
    return UpdateMetadataResponse()
