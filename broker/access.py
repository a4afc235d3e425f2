"""The gate that every request passes before its handler: may who asks ask for this at all?

It knows the API, the listener and the principal, which is anonymous: nobody authenticates yet.

What brokers say to each other is taken from brokers only. A broker is who comes by a listener that
is meant for brokers; as long as clients share it they can't be told from brokers, as in Kafka
without an authorizer. Kafka, which knows principals, asks them for ClusterAction.

A broker that is alone has no others to hear. A Fetch it answers as Kafka does: nobody follows it.
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
    """The answer to a request that is not for its client to send; None: it is handled."""
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
