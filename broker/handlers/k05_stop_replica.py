"""StopReplica 0-4: the controller tells this broker to stop replicas, or to delete them."""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest, StopReplicaResponse

from ..member.control_messages import sender_of, stop_replica_response, stopped_replicas
from ..net.call import Call
from ..node import Node


async def handle(request: StopReplicaRequest, call: Call, node: Node) -> StopReplicaResponse:
    """Stop the replicas; the refusal of a stale epoch does not list them."""
    try:
        codes = await node.control.stop_replicas(sender_of(request), stopped_replicas(request))
    except Refused as refused:
        if refused.code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH):
            return stop_replica_response({}, refused.code)
        return refuse(request, call.version, refused.code)
    return stop_replica_response(codes)


def refuse(request: StopReplicaRequest, version: int, code: ErrorCode) -> StopReplicaResponse:
    """Refuse the whole request, with the code for every replica too."""
    keys = (one.key for one in stopped_replicas(request))
    return stop_replica_response(dict.fromkeys(keys, code), code)
