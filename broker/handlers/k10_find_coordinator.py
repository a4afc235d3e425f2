"""FindCoordinator 0-6: the broker that coordinates a group, or a transactional id.

The first request creates the topic of the coordinator, and is answered once it exists. Share groups
are not supported: INVALID_REQUEST.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

from ..coordinators.internal_topic import InternalTopic
from ..core.acls.terms import Operation, ResourceType
from ..net.call import Call
from ..node import Node
from ..rights.rights import REFUSAL, Rights

BATCHED_VERSION_FIRST: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
KINDS: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}
TEXTS: Final[Mapping[int, str]] = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
TURN_KEYS_MAX: Final = 500  # found before other tasks get their turn


async def handle(
    request: FindCoordinatorRequest, call: Call, node: Node, rights: Rights | None = None
) -> FindCoordinatorResponse:
    """Find the coordinator of each key that the client may describe."""
    await node.metadata.wait_for_first_word()
    if call.version >= BATCHED_VERSION_FIRST:
        found: list[Coordinator] = []
        for key in request.coordinator_keys:  # only the first one may have to wait
            found.append(await _find(key, request.key_type, call, node, rights))
            if len(found) % TURN_KEYS_MAX == 0:
                await asyncio.sleep(0)
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(request.key, request.key_type, call, node, rights)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or _text_of(one.error_code),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


guarded = handle


def _text_of(code: int) -> str:
    """Kafka's text, which these versions have even without an error; librdkafka shows it."""
    return TEXTS.get(code, ErrorCode(code).name)


async def _find(
    key: str, key_type: int, call: Call, node: Node, rights: Rights | None
) -> Coordinator:
    try:
        kind = KINDS.get(key_type) if rights is not None else None
        if rights is not None and kind and not rights.may(Operation.DESCRIBE, kind, key):
            raise Refused(REFUSAL[kind])
        broker = await _topic(key_type, node).coordinator_of(key)
        address = broker.endpoints.get(call.client.entrance)
        if address is None:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "it has no such listener")
    except Refused as refused:
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=refused.code,
            error_message=refused.message,
        )
    return Coordinator(key=key, node_id=broker.broker_id, host=address.host, port=address.port)


def _topic(key_type: int, node: Node) -> InternalTopic:
    """The topic of the keys of a type.  Raises: Refused."""
    if key_type == GROUP:
        return node.groups.topic
    if key_type == TRANSACTION:
        return node.transactions.topic
    raise Refused(ErrorCode.INVALID_REQUEST, "only groups and transactions have a coordinator here")
