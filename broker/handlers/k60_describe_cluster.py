"""DescribeCluster 0-1: the brokers and the controller."""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

from ..core.authorized_operations import ALL_ON_CLUSTER
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights

BROKERS: Final = 1
CONTROLLERS: Final = 2


async def handle(
    request: DescribeClusterRequest, call: Call, node: Node
) -> DescribeClusterResponse:
    """Answer from the cache.  Controllers as endpoints (type 2) exist only in KRaft."""
    metadata = node.metadata
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if known
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="only brokers can be described",
        )
    await metadata.wait_for_first_word()
    response = DescribeClusterResponse(
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in metadata.brokers.values()
            if (endpoint := broker.endpoints.get(call.client.entrance)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_ON_CLUSTER
    return response


async def guarded(
    request: DescribeClusterRequest, call: Call, node: Node, rights: Rights
) -> DescribeClusterResponse:
    """Show the client's own operations on the cluster; the brokers are for everybody."""
    response = await handle(request, call, node)
    if request.include_cluster_authorized_operations and not response.error_code:
        response.cluster_authorized_operations = rights.cluster_operations()
    return response
