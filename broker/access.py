"""The access check of every request before its handler: whether the client may send it at all.

It knows the API, the listener and the principal, which is anonymous unless the client has shown a
certificate. No decision depends on the principal yet.

Requests between brokers are accepted from brokers only. A connection to a listener for brokers
counts as a broker; if clients use the same listener, they can't be distinguished from brokers, as
in Kafka without an authorizer. Kafka, which has principals, requires ClusterAction.

A broker without a cluster accepts no requests from brokers. The exception is Fetch with a replica
id: its handler answers, like Kafka's, that the replica is not a follower here.
"""

import logging
from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from .handlers import Api, Need
from .net.call import Call, Client

if TYPE_CHECKING:
    from .node import Node

logger = logging.getLogger(__name__)


def refusal(api: Api, request: Message, call: Call, node: "Node") -> Message | None:
    """The error response if the client may not send the request; None: handle it."""
    if api.need is Need.NOTHING or _is_taken_for_broker(api.need, call.client, node):
        return None
    answer = api.refuse(request, call.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if answer is not None:
        client = call.client
        logger.debug(
            "request refused api=%s principal=%s host=%s listener=%s",
            api.name,
            client.principal,
            client.host,
            client.listener_name,
        )
    return answer


def _is_taken_for_broker(need: Need, client: Client, node: "Node") -> bool:
    has_others = need is Need.BROKER_TO_FOLLOW or not node.local.is_alone
    return has_others and client.listener_name in node.broker_listeners
