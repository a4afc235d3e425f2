"""ConsumerGroupHeartbeat 0-1: a member of a consumer group (KIP-848) joins, stays or leaves."""

from collections.abc import Callable
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

from ..core.acls.terms import Operation
from ..core.effects import any_topic
from ..core.groups.consumer_request import refusal
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from . import Answer

PROTOCOL: Final = "consumer"


def handle(request: ConsumerGroupHeartbeatRequest, call: Call, node: Node) -> Answer:
    """Let the group decide, if the consumer protocol is enabled."""
    return _handle(request, call, node, any_topic)


def guarded(
    request: ConsumerGroupHeartbeatRequest, call: Call, node: Node, rights: Rights
) -> Answer:
    """Refuse a subscription to a topic that the client may not describe, as Kafka 4.3 does.

    A pattern finds only topics that it may describe.
    """
    for name in request.subscribed_topic_names or ():
        if not rights.topic(Operation.DESCRIBE, name):
            return refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return _handle(request, call, node, rights.may_describe)


def _handle(
    request: ConsumerGroupHeartbeatRequest,
    call: Call,
    node: Node,
    may_describe: Callable[[str], bool],
) -> Answer:
    if PROTOCOL not in node.config.group_coordinator_rebalance_protocols:
        return refusal(ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols")
    if not request.group_id:
        return refusal(ErrorCode.INVALID_REQUEST, "the group has no id")
    said_bytes = sum(map(len, request.subscribed_topic_names or ()))
    said_bytes += len(request.subscribed_topic_regex or "")
    if said_bytes and not node.groups.has_room(said_bytes):
        return refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, "odradek.group.metadata.bytes.max")
    return node.groups.ask(
        Shard.consumer_heartbeat, request.group_id, request, call, refusal, may_describe
    )
