"""The gate that every request passes before its handler: may who asks ask for this at all?

What brokers say to each other is taken from brokers only. A broker is who comes by a listener that
is meant for brokers; as long as clients share it they can't be told from brokers, as in Kafka
without an authorizer. Kafka, which knows principals, asks them for ClusterAction.

A broker that is alone has no others to hear. A Fetch it answers as Kafka does: nobody follows it.
"""

from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from .handlers import Api, Need
from .net.call import Client

if TYPE_CHECKING:
    from .node import Node


def refusal(
    api: Api, request: Message, version: int, client: Client, node: "Node"
) -> Message | None:
    """The answer to a request that is not for its client to send; None: it is handled."""
    if api.need is Need.NOTHING or _is_taken_for_broker(api.need, client, node):
        return None
    return api.refuse(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _is_taken_for_broker(need: Need, client: Client, node: "Node") -> bool:
    has_others = need is Need.BROKER_TO_FOLLOW or not node.is_alone
    return has_others and client.listener_name in node.broker_listeners
