"""ApiVersions 0-4: the APIs and versions that the broker serves, from the table of APIs.

With odradek.transaction.version=2 the feature transaction.version is supported and finalized, as in
Kafka 4. There are no other features, as with Kafka's brokers in ZooKeeper mode; the epoch is the
version of /feature.

With odradek.compatibility they are those that this release of Kafka served, too, except on a
listener for brokers.

The dispatcher answers unknown versions, because their body cannot be read.
"""

import re
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from ..net.call import Call
from ..node import Node
from . import Api

SOFTWARE_VERSION_FIRST: Final = 3
LEVEL_0_VERSION_FIRST: Final = 4
"""Clients of older versions fail at a supported feature whose first level is 0 (KAFKA-17011)."""
PRODUCE_KEY: Final = 0
TRANSACTION_VERSION: Final = "transaction.version"
CONSUMER_GROUPS: Final = (68, 69)  # KIP-848; group.coordinator.rebalance.protocols
NOT_BESIDE_KAFKA: Final = (75,)
"""Unknown to Kafka's brokers in ZooKeeper mode: clients would send it to them too."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511


def handle(request: ApiVersionsRequest, call: Call, node: Node) -> ApiVersionsResponse:
    """List the APIs, unless the client's software name or version is malformed."""
    if call.version >= SOFTWARE_VERSION_FIRST:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.client.note_software(f"{name}-{version}"[:200])
    transaction_version = node.config.odradek_transaction_version
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=api.key,
                min_version=_first_shown(api),
                max_version=api.last_with(transaction_version),
            )
            for api in node.apis_on(call.client.listener_name).values()
            if _is_advertised(api, node)
        ],
        finalized_features_epoch=node.controller.feature_epoch,
    )
    if transaction_version:
        _show_transaction_version(response, transaction_version, call.version)
    return response


def _show_transaction_version(
    response: ApiVersionsResponse, transaction_version: int, api_version: int
) -> None:
    if api_version >= LEVEL_0_VERSION_FIRST:
        response.supported_features = [
            SupportedFeatureKey(
                name=TRANSACTION_VERSION, min_version=0, max_version=transaction_version
            )
        ]
    response.finalized_features = [
        FinalizedFeatureKey(
            name=TRANSACTION_VERSION,
            max_version_level=transaction_version,
            min_version_level=transaction_version,
        )
    ]


def _first_shown(api: Api) -> int:
    """As Kafka 4: clients that look for Produce 0 would take the broker for one without records of
    format 2 (KAFKA-18659)."""
    return 0 if api.key == PRODUCE_KEY else api.first


def _is_advertised(api: Api, node: Node) -> bool:
    if api.key in CONSUMER_GROUPS:
        return "consumer" in node.config.group_coordinator_rebalance_protocols
    if api.key in NOT_BESIDE_KAFKA and node.config.zookeeper_connect:
        return False
    return api.is_advertised
