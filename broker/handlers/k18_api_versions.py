"""ApiVersions 0-4: which APIs and versions are served, from the table of APIs.

A version that is not known is answered by the dispatcher, since its body can't be read.
"""

import re
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

from ..call import Call
from ..node import Node
from . import APIS

SOFTWARE_VERSION_FIRST: Final = 3
CONSUMER_GROUPS: Final = (68, 69)  # KIP-848; group.coordinator.rebalance.protocols
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511


def handle(request: ApiVersionsRequest, call: Call, node: Node) -> ApiVersionsResponse:
    """List the APIs, if the client names itself properly."""
    if call.version >= SOFTWARE_VERSION_FIRST:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.peer.note_software(f"{name}-{version}"[:200])
    consumer_groups = "consumer" in node.config.group_coordinator_rebalance_protocols
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.first, max_version=api.last)
            for api in APIS.values()
            if api.is_advertised and (api.key not in CONSUMER_GROUPS or consumer_groups)
        ],
        finalized_features_epoch=0,
    )
