"""StopReplica 0-4: the controller has this broker give up replicas, or delete them."""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest, StopReplicaResponse

from ..call import Call
from ..control_messages import sender_of, stop_replica_response, stopped_replicas
from ..node import Node


async def handle(request: StopReplicaRequest, call: Call, node: Node) -> StopReplicaResponse:
    """Stop them; a request that is refused for an old epoch says nothing of its replicas."""
    stopped = stopped_replicas(request)
    try:
        codes = await node.control.stop_replicas(sender_of(request), stopped)
    except Refused as refused:
        stale = refused.code in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
        codes = {} if stale else dict.fromkeys((one.key for one in stopped), refused.code)
        return stop_replica_response(codes, refused.code)
    return stop_replica_response(codes)
