"""FindCoordinator 0-6: the broker that coordinates a group or a transactional id.

There are no groups and no transactions yet. Groups are answered COORDINATOR_NOT_AVAILABLE, which
clients retry; anything else INVALID_REQUEST. The entry itself is needed: librdkafka concludes from
its absence that lz4 is not supported.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

from ..call import Call
from ..node import Node

BATCHED_VERSION_FIRST: Final = 4
GROUP: Final = 0


def handle(request: FindCoordinatorRequest, call: Call, node: Node) -> FindCoordinatorResponse:
    """Say why there is no coordinator."""
    if request.key_type == GROUP:
        code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, "consumer groups are not served yet"
    else:
        code, message = ErrorCode.INVALID_REQUEST, "transactions are not served yet"
    if call.version < BATCHED_VERSION_FIRST:
        return FindCoordinatorResponse(
            error_code=code, error_message=message, node_id=-1, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
            )
            for key in request.coordinator_keys
        ]
    )
